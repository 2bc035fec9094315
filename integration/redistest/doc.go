// Package redistest starts real Redis servers in Docker containers and breaks them in the ways that a lock has to survive:
// paused, killed, stopped, started again.
//
// Every node listens on 127.0.0.1 only, on a port that stays the same when it is restarted. [Start] removes its containers when the
// test ends, however it ends. Without a Docker engine a test is skipped, and with CI=true in the environment it fails instead,
// so that a build can't be green because it tested nothing.
//
// A port on 127.0.0.1 is served by Docker's own proxy process. While a node is paused the proxy goes on accepting connections and
// holds what is sent until the node runs again; when a node is killed the proxy ends with it, and dialling is refused. Both are what
// a frozen and a dead machine look like from far away.
//
// Two variables of the environment matter: REDLOCK_TEST_IMAGE names the image (default redis:7), and REDLOCK_TEST_RUN is the value
// that the label go-redlock-test gets on each container, by which the caller can remove what a crashed test binary left.
package redistest
