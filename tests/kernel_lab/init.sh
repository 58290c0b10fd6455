#!/bin/sh
# The first and only program of the lab's machine: one step of the plan, or of a job, then off.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export NO_COLOR=1 TERM=dumb COLUMNS=100
export REPLAYER_HOME=/var/lib/replayer PYTHONPATH=/opt/replayer PYTHONDONTWRITEBYTECODE=1
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev 2>/dev/null
mkdir -p /dev/shm /dev/pts
mount -t tmpfs -o mode=1777 shm /dev/shm
mount -t devpts pts /dev/pts
mount -t tmpfs -o mode=1777 tmp /tmp
mount -t tmpfs run /run
mount -o remount,rw /
ip link set lo up 2>/dev/null
hostname lab
cd /lab
if [ -e job.sh ]; then
    sh job.sh > answer.txt 2>&1
    status=$?
    cat answer.txt
    plan=$(ls -d results/*.plan results/*/boots.plan 2>/dev/null | head -n 1)
    echo "LAB NEXT $(python3 -m replayer step "$plan" --next)"
else
    python3 -m replayer step boots.plan
    status=$?
fi
echo "LAB STATUS $status"
sync
mount -o remount,ro /
echo o > /proc/sysrq-trigger
sleep 60
