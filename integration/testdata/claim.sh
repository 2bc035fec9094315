#!/bin/sh
# Runs its steps under a lock, and extends the lock before each step, which takes less than the TTL.
# Usage: claim.sh NAME STEP…
# If the lock cannot be acquired the script exits with the status of redlock. If the lock is lost it
# exits with 74, and does not run the remaining steps.
set -eu
name=$1
shift

claim=$(redlock acquire --ttl 30s --wait "${WAIT:-1m}" "$name")
release() { echo "$claim" | redlock release -; }
trap 'release || true' EXIT

for step in "$@"; do
  echo "$claim" | redlock extend - # if the lock is lost set -e ends the script
  sh -c "$step"
done

trap - EXIT
release # 74: the lock was lost during the last step
