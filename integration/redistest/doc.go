// Package redistest starts real Redis servers in Docker containers and injects the faults that a
// lock must survive: servers are paused, killed, stopped and restarted.
//
// Every node listens on 127.0.0.1 only, on a port that stays the same after a restart. [Start]
// removes its containers when the test ends, however it ends; with [Run] some serve later tests.
// Without a Docker engine a test is skipped. With CI=true in the environment it fails instead, so a
// build cannot pass because it tested nothing.
//
// A port on 127.0.0.1 is served by Docker's own proxy process. While a node is paused the proxy
// accepts connections and keeps what is sent until the node runs again. When a node is killed its
// proxy ends, too, as soon as the engine sees that, and dialling is refused. Before that the proxy closes
// what it accepts. Frozen and dead machines behave the same way for a
// remote client.
//
// On a network of [StartNamed] servers have names, and move to other addresses.
//
// What the harness asks of the Docker engine is repeated within a bound, because a busy machine may fail.
// Where the server's process runs on this machine, it is paused and killed by a signal instead.
//
// Two environment variables matter. REDLOCK_TEST_IMAGE names the image (default redis:7).
// REDLOCK_TEST_RUN is the value of the label go-redlock-test on each container, by which the caller
// can remove containers that a crashed test binary left.
package redistest
