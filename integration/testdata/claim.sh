#!/bin/sh
# Does its steps while it holds a lock, which it extends between them. Usage: claim.sh NAME STEP…
# Ends as redlock does when the lock can't be had, and with 74 when it was lost on the way: the steps that are left are not done.
set -eu
name=$1
shift

claim=$(redlock acquire --ttl 10s --wait "${WAIT:-1m}" "$name")
give_back() { echo "$claim" | redlock release -; }
trap 'give_back || true' EXIT

for step in "$@"; do
  echo "$claim" | redlock extend - # set -e ends the script when it is lost
  sh -c "$step"
done

trap - EXIT
give_back # 74: it was lost during the last step
