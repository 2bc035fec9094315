// Package schedlock runs each tick of a scheduled job on one process of many, under a lock of
// package redlock. It adds jobs to gocron v2 and to robfig/cron v3. It is a module of its own, so
// users of package redlock do not depend on schedulers.
//
//	jobs := schedlock.New(locker, schedlock.Config{})
//	_, err := jobs.AddCron(ctx, scheduler, "* * * * *", schedlock.Job{Name: "report", MinHold: 30 * time.Second}, report)
//
// Every process runs the scheduler. At a tick each of them tries to acquire the job's lock. One
// process runs the job, and the others skip the tick.
//
//   - The lock is extended while the job runs, for at most 24 h unless [Job].Options has
//     redlock.WithMaxHold. A tick that is due meanwhile is skipped, in all processes.
//   - The lock remains held for [Job].MinHold after a short job. A process with a late clock then
//     still finds it held, and does not run the tick again.
//   - A job that loses its lock gets a cancelled context: see [Jobs.AddGocron] and [Jobs.AddCron].
//   - A job never starts without its lock. A tick without a quorum of nodes is skipped, and reported.
//   - A job that panics releases its lock, and the panic continues.
//
// A tick runs at most once while no process is late by more than MinHold less Wait. A tick whose process
// crashes is not repeated.
package schedlock
