#!/usr/bin/env bash
# What the program says to a command line that it does not understand, and when there is no daemon.
source "$RUBATO_SOURCE/tests/cli/helpers.sh"

# --- Commands and options
refused "unknown command 'submti'; did you mean 'submit'?" -- submti -- ./train
refused "unknown command 'submti'; did you mean 'submit'?" -- --server http://127.0.0.1:1 submti
refused "unknown command 'frobnicate'; 'rubato --help' lists the commands" -- frobnicate
refused "unknown command 'usee'; did you mean 'use'?" -- policy usee fifo
refused "say which command" "rubato --help" --
refused "unknown option '--devcies' (did you mean '--devices'?)" "rubato submit --help" -- submit --devcies 3 -- ./train
refused "unexpected argument 'extra'" -- status j1 extra
refused "JOB is missing" "rubato status --help" -- status
refused "--name needs a value" -- submit --name
refused "--arrival: 'weekly' is not one of bursty, diurnal, poisson" -- workload generate --arrival weekly
refused "--mode: 'adaptve' is not one of consistent, adaptive (did you mean 'adaptive'?)" -- run --mode adaptve -- ./train
refused "--workers: 'x' is not a number from 1 to " -- run --workers x -- ./train
refused "--workers: '0' is not a number from 1 to " -- run --workers 0 -- ./train
refused "devices: 'two' is not a number" -- reserve two --for 1h
refused "--weight: 'heavy' is not a number" -- tenants set a --weight heavy
exits 0 "submit" -- --help
exits 0 -- --version

# --- Without a daemon: what was tried, and what to do
refused "no daemon runs on this machine" "$RUBATO_STATE/server.url" "start one with 'rubatod'" "--server URL" -- queue
refused "cannot reach http://127.0.0.1:1" "is rubatod running?" "--server URL" "RUBATO_SERVER" -- --server http://127.0.0.1:1 queue
refused "there is no job 'nothing'" "no daemon runs on this machine" -- status nothing
refused "there is no job 'nothing'" -- ps nothing

# --- A job document is at most 1 MiB; an endless stream is not read for ever
refused "standard input: more than 1 MiB" -- submit -f - < <(yes run: ./train)
refused "more than 1 MiB" -- submit -f <(yes run: ./train)
refused "is a directory" -- submit -f "$work"

# --- Messages about a field name the option that gave it, or the file
refused '--mode: "elastic"' "consistent | adaptive | rigid | opaque" -- submit --mode elastic -- ./train
refused '--devices: "4..2"' "2..4" -- submit --devices 4..2 -- ./train
refused "--batch: only for adaptive jobs" -- submit --batch 64 -- ./train
refused "--name: 'x/y': a name must not contain '/'" -- submit --name x/y -- ./train
refused "--name: 'j12'" "id of a job" -- submit --name j12 -- ./train
refused "--checkpoint-every: " "duration" -- submit --checkpoint-every soon -- ./train
printf 'run: ./train\nlogical_workers: 4\n' >"$work/job.yaml"
refused "$work/job.yaml: logical_workers: only for consistent and rigid jobs" -- submit -f "$work/job.yaml" --mode adaptive
printf 'run: ./train\nname: x/y\n' >"$work/job.yaml"
refused "$work/job.yaml:2:7" "must not contain '/'" -- submit -f "$work/job.yaml"
refused "set: 'prioritty' cannot be changed (did you mean 'priority'?); these can: name, priority" -- set j1 prioritty=3
refused "set: 'priority': expected FIELD=VALUE" -- set j1 priority
finish
