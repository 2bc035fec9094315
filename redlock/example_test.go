package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"time"

	"github.com/quorumlock/go-redlock/internal/fakeredis"
	"github.com/quorumlock/go-redlock/redlock"
)

// threeMasters starts three masters in this process, for the examples. A service passes the URLs of
// its own servers.
func threeMasters() (masters []*fakeredis.Master, urls []string, stop func()) {
	for _, name := range []string{"n1", "n2", "n3"} {
		m, err := fakeredis.Start(name)
		if err != nil {
			log.Fatal(err)
		}
		masters, urls = append(masters, m), append(urls, m.URL()+"?name="+name)
	}
	return masters, urls, func() {
		for _, m := range masters {
			m.Close()
		}
	}
}

// patient is an option for examples alone: a busy machine may stop their process for seconds. Services
// rarely need another node timeout than the default.
var patient = redlock.WithNodeTimeout(10 * time.Second)

// A Locker is made once and shared. Open does not require that any node is up.
func ExampleOpen() {
	_, urls, stop := threeMasters()
	defer stop()

	locker, err := redlock.Open(urls, redlock.WithOwner("billing-1"), redlock.WithKeyPrefix("lock/"), patient)
	if err != nil {
		fmt.Println(err) // a wrong URL or setting
		return
	}
	defer locker.Close(context.Background())

	fmt.Println(locker.Healthy(context.Background()))
	// Output: <nil>
}

// Most programs need only Do: fn runs while the lock is held and extended.
func ExampleLocker_Do() {
	_, urls, stop := threeMasters()
	defer stop()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(context.Background())

	err := locker.Do(context.Background(), "invoice/42", 30*time.Second,
		func(ctx context.Context, lock *redlock.Lock) error {
			fmt.Println("held:", lock.Names(), ctx.Err())
			return nil // ctx ends when the lock is lost
		})
	fmt.Println("done:", err)
	// Output:
	// held: [invoice/42] <nil>
	// done: <nil>
}

// Acquire waits until the name is free, as long as ctx allows.
func ExampleLocker_Acquire() {
	_, urls, stop := threeMasters()
	defer stop()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(context.Background())
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()

	lock, err := locker.Acquire(ctx, "invoice/42", time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held, and valid for nearly all of the TTL:", lock.Remaining() > 50*time.Second)
	fmt.Println("released:", lock.Release(ctx)) // Release also works after ctx has ended
	// Output:
	// held, and valid for nearly all of the TTL: true
	// released: <nil>
}

// TryAcquire does not wait for the holder. Its error names the holder.
func ExampleLocker_TryAcquire() {
	_, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	first, _ := redlock.Open(urls, redlock.WithOwner("worker-7"), patient)
	defer first.Close(ctx)
	second, _ := redlock.Open(urls, redlock.WithOwner("worker-8"), patient)
	defer second.Close(ctx)

	lock, err := first.TryAcquire(ctx, "nightly", time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	_, err = second.TryAcquire(ctx, "nightly", time.Minute)
	var held *redlock.HeldError
	if errors.Is(err, redlock.ErrHeld) && errors.As(err, &held) {
		fmt.Println("held by", held.Owner)
	}
	fmt.Println("released:", lock.Release(ctx))
	lock, err = second.TryAcquire(ctx, "nightly", time.Minute)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("then:", lock.Release(ctx))
	// Output:
	// held by worker-7
	// released: <nil>
	// then: <nil>
}

// One lock can have several names. It holds all of them or none.
func ExampleLocker_AcquireAll() {
	_, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(ctx)

	lock, err := locker.AcquireAll(ctx, []string{"account/b", "account/a"}, 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(lock.Names())

	_, err = locker.TryAcquire(ctx, "account/a", 30*time.Second)
	fmt.Println("held by another:", errors.Is(err, redlock.ErrHeld))
	fmt.Println("released:", lock.Release(ctx))
	// Output:
	// [account/a account/b]
	// held by another: true
	// released: <nil>
}

// A refusal (another owner holds the name) differs from a fault (too few nodes answer). The error
// has every node's vote.
func ExampleQuorumError() {
	masters, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(ctx)
	masters[0].FailWith("SET", "LOADING Redis is loading the dataset in memory")
	masters[2].FailWith("SET", "READONLY You can't write against a read only replica.")

	_, err := locker.TryAcquire(ctx, "invoice/42", 30*time.Second)
	switch {
	case redlock.HeldBy(err) != nil:
		fmt.Println("another process does it")
	case err != nil:
		fmt.Println("raise an alarm")
	}
	var q *redlock.QuorumError
	if errors.As(err, &q) {
		for _, vote := range q.Votes {
			if vote.Outcome == redlock.OutcomeFailed {
				fmt.Printf("%s: %v: %v\n", vote.Node, vote.Outcome, vote.Err)
			}
		}
	}
	// Output:
	// raise an alarm
	// n1: failed: LOADING Redis is loading the dataset in memory
	// n3: failed: READONLY You can't write against a read only replica.
}
