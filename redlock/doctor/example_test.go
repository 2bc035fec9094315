package doctor_test

import (
	"context"
	"fmt"
	"time"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
	"github.com/quorumlock/go-redlock/redlock/doctor"
)

// A program can report what is wrong with its servers when it starts. It does not have to: nodes
// that are unfit never vote.
func ExampleDiagnose() {
	var urls []string
	for _, name := range []string{"n1", "n2", "n3"} {
		m, err := fakeredis.Start(name)
		if err != nil {
			fmt.Println(err)
			return
		}
		defer m.Close()
		if name == "n2" {
			m.SetInfo("role", "slave") // as if it had been made a replica
		}
		urls = append(urls, m.URL()+"?name="+name)
	}
	locker, _ := redlock.Open(urls, redlock.WithNodeTimeout(10*time.Second))
	defer locker.Close(context.Background())

	report, err := doctor.Diagnose(context.Background(), locker)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("errors:", report.Failed())
	for _, f := range report.All() {
		if f.Grade == doctor.Error {
			fmt.Println(f.Text)
		}
	}
	// Output:
	// errors: true
	// n2 is a replica: give the address of a master, or make it one by REPLICAOF NO ONE and keep clients away from it for the longest TTL or minimum hold
}
