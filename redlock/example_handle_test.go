package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	"github.com/quorumlock/go-redlock/redlock"
)

// Work runs under the lock's context, which ends with the lock and has the reason as its cause.
func ExampleLock_Context() {
	_, urls, stop := threeMasters()
	defer stop()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(context.Background())

	lock, err := locker.Acquire(context.Background(), "invoice/42", 30*time.Second, redlock.WithAutoExtend())
	if err != nil {
		fmt.Println(err)
		return
	}
	query, cancel := context.WithTimeout(lock.Context(), time.Minute) // ends with the lock, or after a minute
	defer cancel()
	fmt.Println("before:", query.Err())

	fmt.Println("released:", lock.Release(context.Background()))
	fmt.Println("after:", query.Err())
	fmt.Println("because:", context.Cause(query))
	// Output:
	// before: <nil>
	// released: <nil>
	// after: context canceled
	// because: redlock: lock released
}

// Extend moves the end of the validity, for work that knows how long it will take.
func ExampleLock_Extend() {
	_, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(ctx)

	lock, err := locker.Acquire(ctx, "invoice/42", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	switch err := lock.Extend(ctx, time.Minute); {
	case err == nil:
		fmt.Println("more than 50 s:", lock.Remaining() > 50*time.Second)
	case errors.Is(err, redlock.ErrLost):
		fmt.Println("stop now:", err)
	default:
		fmt.Println("still valid for", lock.Remaining(), "and worth another try:", err)
	}
	fmt.Println("released:", lock.Release(ctx))
	// Output:
	// more than 50 s: true
	// released: <nil>
}

// Check queries the nodes before a step that cannot be undone. Here they have lost the lock, which
// the clock alone cannot detect.
func ExampleLock_Check() {
	masters, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(ctx)

	lock, err := locker.Acquire(ctx, "invoice/42", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("held:", lock.Check(ctx) == nil)

	for _, m := range masters {
		m.FlushAll()
	}
	var lost *redlock.LostError
	fmt.Println("lost:", errors.As(lock.Check(ctx), &lost), lost.Reason)
	fmt.Println("context:", errors.Is(context.Cause(lock.Context()), redlock.ErrLost))
	// Output:
	// held: true
	// lost: true gone
	// context: true
}

// The error of Release tells the loss of a lock from a shutdown: both end the work with context.Canceled.
func ExampleLock_Release() {
	masters, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(ctx)

	settle := func() (err error) {
		lock, err := locker.Acquire(ctx, "invoice/42", 30*time.Second)
		if err != nil {
			return err
		}
		defer func() { err = errors.Join(err, lock.Release(ctx)) }()

		for _, m := range masters {
			m.FlushAll()
		}
		_ = lock.Check(ctx)         // it learns that the nodes have lost the lock
		return lock.Context().Err() // what the commit of a transaction returns, for example
	}
	err := settle()
	fmt.Println("canceled:", errors.Is(err, context.Canceled))
	fmt.Println("lost:", errors.Is(err, redlock.ErrLost))
	// Output:
	// canceled: true
	// lost: true
}

// A lock moves from one process to another. The first detaches it and passes the claim on, for
// example in an environment variable. The second resumes it.
func ExampleLock_Detach() {
	_, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	first, _ := redlock.Open(urls, redlock.WithOwner("parent"), patient)
	defer first.Close(ctx)
	second, _ := redlock.Open(urls, redlock.WithOwner("child"), patient)
	defer second.Close(ctx)

	lock, err := first.Acquire(ctx, "invoice/42", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	claim, err := lock.Detach()
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(claim) // shows no token
	text, _ := claim.MarshalText()
	_ = os.Setenv("EXAMPLE_CLAIM", string(text))

	var received redlock.Claim
	if err := received.UnmarshalText([]byte(os.Getenv("EXAMPLE_CLAIM"))); err != nil {
		fmt.Println(err)
		return
	}
	resumed, err := second.Resume(ctx, received, redlock.WithAutoExtend())
	if err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("resumed:", resumed.Names())
	fmt.Println("released:", resumed.Release(ctx))
	fmt.Println("the first handle:", lock.Check(ctx))
	// Output:
	// claim on "invoice/42" by parent:…
	// resumed: [invoice/42]
	// released: <nil>
	// the first handle: redlock: lock detached: "invoice/42"
}

// A function that acquires the lock itself is called by a function that holds it already. With
// WithShared it gets a share of the lock, which ends no later than the lock.
func ExampleWithShared() {
	_, urls, stop := threeMasters()
	defer stop()
	locker, _ := redlock.Open(urls, patient)
	defer locker.Close(context.Background())

	book := func(ctx context.Context, opts ...redlock.LockOption) error {
		return locker.Do(ctx, "account/7", 30*time.Second, func(context.Context, *redlock.Lock) error {
			fmt.Println("booked")
			return nil
		}, opts...)
	}
	err := locker.Do(context.Background(), "account/7", 30*time.Second,
		func(ctx context.Context, _ *redlock.Lock) error {
			fmt.Println("already held:", errors.Is(book(ctx), redlock.ErrAlreadyHeld))
			return book(ctx, redlock.WithShared())
		})
	fmt.Println(err)
	// Output:
	// already held: true
	// booked
	// <nil>
}

// Every machine starts the job at about midnight, and it must run once. It takes no time, and the
// minimum hold keeps the name until all clocks have passed midnight.
func ExampleWithMinHold() {
	_, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	for _, machine := range []string{"m1", "m2"} {
		locker, _ := redlock.Open(urls, redlock.WithOwner(machine), patient)
		defer locker.Close(ctx)

		lock, err := locker.TryAcquire(ctx, "nightly", 30*time.Second, redlock.WithMinHold(5*time.Minute))
		if held := redlock.HeldBy(err); held != nil {
			fmt.Println(machine, "leaves it to", held.Owner)
			continue
		}
		if err != nil {
			fmt.Println(err)
			return
		}
		fmt.Println(machine, "runs it")
		if err := lock.Release(ctx); err != nil {
			fmt.Println(err)
		}
	}
	// Output:
	// m1 runs it
	// m2 leaves it to m1
}

// Hooks report events of locks. Here they count what would go to a dashboard.
func ExampleTrace() {
	_, urls, stop := threeMasters()
	defer stop()
	ctx := context.Background()
	reported := make(chan string, 10)
	locker, _ := redlock.Open(urls, patient, redlock.WithTrace(&redlock.Trace{
		Acquired: func(e redlock.WaitEvent) {
			reported <- fmt.Sprint("acquired ", e.Names, " at attempt ", e.Attempts)
		},
		Extended: func(e redlock.RoundEvent) { reported <- fmt.Sprint("extended, error ", e.Err) },
		Ended:    func(e redlock.HoldEvent) { reported <- fmt.Sprint("ended: ", e.Cause) },
		Released: func(e redlock.RoundEvent) { reported <- fmt.Sprint("released, error ", e.Err) },
	}))
	defer locker.Close(ctx)

	lock, err := locker.Acquire(ctx, "invoice/42", 30*time.Second)
	if err != nil {
		fmt.Println(err)
		return
	}
	_ = lock.Extend(ctx, time.Minute) // Extended gets its error
	_ = lock.Release(ctx)             // Released gets its error

	for range 4 { // hooks run on a goroutine of their own
		fmt.Println(<-reported)
	}
	// Output:
	// acquired [invoice/42] at attempt 1
	// extended, error <nil>
	// ended: redlock: lock released
	// released, error <nil>
}
