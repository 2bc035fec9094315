// Package schedlock runs each tick of a scheduled job on one process of many, under a lock of
// package redlock. It is a Locker for gocron v2, and a JobWrapper for robfig/cron v3. It is a module
// of its own, so users of package redlock do not depend on schedulers.
//
//	jobs, err := schedlock.New(locker, schedlock.Config{MinHold: 30 * time.Second})
//	if err != nil { … }
//	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(jobs))
//
// Every process runs the scheduler. At a tick each of them tries to acquire the job's lock, and does
// not wait for it. One process runs the job, and the others skip the tick.
//
//   - The lock is extended for as long as the job runs. A tick that is due meanwhile is skipped, in
//     all processes.
//   - The lock remains held for [Config].MinHold after a short job. A process with a late clock then
//     still finds it held, and does not run the tick again.
//   - A job that loses its lock gets a cancelled context: see [Jobs.GocronTask] and [Jobs.CronJob].
//   - A job never runs without its lock. A tick without a quorum of nodes is skipped, and reported.
//   - A job that panics releases its lock, and the panic continues.
//
// A tick runs at most once while no process is late by more than MinHold. A tick whose process
// crashes is not repeated.
package schedlock
