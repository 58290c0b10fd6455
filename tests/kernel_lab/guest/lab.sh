#!/bin/sh
# At each boot of the lab's machine: the first one starts the plan, the one after its end looks
# what was left and switches off; the others are the plan's own.
export PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin HOME=/root LANG=C.UTF-8
export PYTHONPATH=/lab/replayer:/opt/replayer PYTHONDONTWRITEBYTECODE=1 COLUMNS=100 NO_COLOR=1
cd /lab || exit 1
look() {
    # A folder in which something was for a while has another time.
    find /etc/systemd /etc/init.d /etc/rc?.d /boot -not -name grubenv \
        \( -type d -printf '%p/\n' -o -printf '%p %y %l %s %T@\n' \) | sort
    grub-editenv /boot/grub/grubenv list | sort
    cat /sys/kernel/kexec_loaded
    sysctl kernel.panic kernel.panic_on_oops
    uname -r
}
off() {
    look > /lab/after
    [ ! -e /lab/job.sh ] || sh /lab/job.sh > /lab/answer.txt 2>&1
    find /var/lib/replayer | sort > /lab/home
    python3 -m replayer boots status > /lab/status 2>&1
    echo "LAB STATUS $1" > /dev/console
    sync
    systemctl poweroff
}
case "$1" in
boot)
    if [ -e /lab/over ]; then
        off 0
    elif [ ! -e /lab/started ] && [ ! -e /lab/by-hand ]; then
        # What systemd writes at its first boot is there once it has started.
        sleep 5
        look > /lab/before
        touch /lab/started
        sync
        plan=boots.plan
        if [ -e /lab/job.sh ]; then
            sh /lab/job.sh 2>&1 | tee /lab/begun.txt
            plan=$(ls -d /lab/results/*.plan /lab/results/*/boots.plan 2>/dev/null | head -n 1)
        fi
        python3 -m replayer boots start "$plan" --yes $(cat /lab/words) --then "/lab/lab.sh then" \
            > /lab/start.txt 2>&1 || { cat /lab/start.txt; echo "LAB STATUS 1"; systemctl poweroff; }
        cat /lab/start.txt
    fi
    ;;
look)
    look
    ;;
then)
    # A plan that was stopped leaves the machine as it runs.
    touch /lab/over
    echo "$REPLAYER_BOOTS_OUTCOME: $REPLAYER_BOOTS_REASON" > /lab/outcome
    [ "$REPLAYER_BOOTS_RESTARTS" = 1 ] || systemd-run --on-active=5 /lab/lab.sh boot
    ;;
esac
