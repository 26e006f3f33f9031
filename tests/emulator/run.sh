#!/usr/bin/env bash
# Runs the AWS emulator until stdin ends, then kills it with its whole process group.
#
# usage: run.sh VENV PORT        VENV is what setup.sh printed; the log goes to stdout and stderr
#
# The process that started this holds the other end of stdin: however that process dies, the pipe closes and the emulator goes.
# It can ignore SIGTERM, so it gets SIGKILL.
set -u
venv=$1
port=$2

exec 3<&0
set -m # the emulator gets a process group of its own
# Without hypercorn it binds every interface, whatever --host says. Its metrics of SQS are a call to itself for each call
# that is made: half of its time, and nobody reads them.
GATEWAY_SERVER=hypercorn SQS_DISABLE_CLOUDWATCH_METRICS=1 "$venv/bin/localemu" start --host 127.0.0.1 --port "$port" </dev/null 3<&- &
emulator=$!
# The signal may come from a terminal as well; the pipe tells us all the same.
trap '' INT TERM HUP
(cat <&3 >/dev/null; kill -KILL -- "-$emulator") 2>/dev/null &
watcher=$!
wait "$emulator"
status=$?
kill -KILL -- "-$watcher" 2>/dev/null
exit "$status"
