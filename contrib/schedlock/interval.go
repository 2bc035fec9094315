package schedlock

import (
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/robfig/cron/v3"
)

// cronTicks is how many ticks of a schedule are looked at. The shortest time between two ticks of a
// cron expression is among the first hundreds, because each of its fields has at most 60 values.
const cronTicks = 1000

// cronInterval returns the shortest time between two ticks of a schedule of cron.
func cronInterval(s cron.Schedule, in *time.Location) (shortest time.Duration, known bool) {
	at := s.Next(time.Date(2024, 1, 1, 0, 0, 0, 0, in)) // any start will do, and the result is always the same
	for range cronTicks {
		next := s.Next(at)
		if !next.After(at) { // no more ticks
			break
		}
		if d := next.Sub(at); !known || d < shortest {
			shortest, known = d, true
		}
		at = next
	}
	return shortest, known
}

// crontab parses what gocron.CronJob accepts.
var crontab = cron.NewParser(cron.SecondOptional | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow | cron.Descriptor)

// gocronInterval returns the shortest time between two ticks of a job of gocron. It is unknown for
// jobs at times of the day, and for an expression that only another implementation of cron can read.
func gocronInterval(s gocron.JobSchedule) (shortest time.Duration, known bool) {
	switch s := s.(type) {
	case gocron.DurationJobSchedule:
		return s.Duration, true
	case gocron.DurationRandomJobSchedule:
		return s.Min, true
	case gocron.CronJobSchedule:
		if schedule, err := crontab.Parse(s.Crontab); err == nil {
			return cronInterval(schedule, time.UTC)
		}
	}
	return 0, false
}
