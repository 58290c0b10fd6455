#!/bin/sh
# An ssh for tests, by $REPLAYER_SSH: whatever the host is called, it is this one.
while [ "$1" != "--" ]; do shift; done
shift 2
unset SSH_CONNECTION
exec sh -c "$*"
