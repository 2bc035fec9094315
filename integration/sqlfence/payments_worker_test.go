//go:build unix

package sqlfence_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/jackc/pgx/v5/pgxpool"

	"github.com/quorumlock/go-redlock/contrib/sqlfence"
	"github.com/quorumlock/go-redlock/integration/examples/payments"
	"github.com/quorumlock/go-redlock/integration/redistest"
	"github.com/quorumlock/go-redlock/redlock"
)

// payVariable has the task of a process that pays an invoice, as JSON.
const payVariable = "REDLOCK_TEST_PAY"

// payTask is what a process that pays an invoice is told.
type payTask struct {
	Nodes      []string
	Postgres   string // a URL
	Provider   string // a URL
	Invoice    int64
	Key        keyKind
	TTL        time.Duration
	Stop       int    // at which step it stops, from 1 on; 0 for none
	StopBefore string // or before it first sends this text
	StopAt     string // or at the first step of this name
}

// keyKind says of what the idempotency key is made.
type keyKind string

const (
	keyOfInvoice keyKind = "the invoice"
	keyOfFence   keyKind = "the fence"
	noKey        keyKind = "nothing"
)

const (
	stopped    = "stopped"
	stepsTaken = "steps: "

	fromProvider = "from provider" // the step at which its answer has come
)

// TestMain pays an invoice in a process that was started for that.
func TestMain(m *testing.M) {
	text := os.Getenv(payVariable)
	if text == "" {
		status := redistest.Run(m)
		os.Exit(max(status, postgres.remove(), mariaDB.remove()))
	}
	if err := payOnce(text); err != nil {
		fmt.Fprintf(os.Stderr, "%v (lost: %t)\n", err, errors.Is(err, redlock.ErrLost))
		os.Exit(1)
	}
	os.Exit(0)
}

func payOnce(text string) (err error) {
	var task payTask
	if err := json.Unmarshal([]byte(text), &task); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	taken := &steps{at: task.Stop, before: []byte(task.StopBefore), first: task.StopAt}
	locker, err := redlock.Open(task.Nodes, redlock.WithFencing())
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, locker.Close(ctx)) }()
	config, err := pgxpool.ParseConfig(task.Postgres)
	if err != nil {
		return err
	}
	config.ConnConfig.DialFunc = taken.dial("postgres")
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return err
	}
	service, err := newService(locker, pool, sqlfence.DefaultWait, task.TTL, task.Key, &providerClient{
		url:  task.Provider,
		http: &http.Client{Transport: &http.Transport{DialContext: taken.dial("provider")}},
	})
	if err != nil {
		return err
	}
	if err := service.Pay(ctx, task.Invoice, centsOf(task.Invoice)); err != nil {
		return err
	}
	fmt.Println(stepsTaken + strings.Join(taken.list(), ", "))
	return nil
}

func newService(locker *redlock.Locker, pool *pgxpool.Pool, wait, ttl time.Duration, key keyKind, provider payments.Provider) (*payments.Service, error) {
	fences, err := sqlfence.New(sqlfence.Config{Dialect: sqlfence.Postgres, Namespace: "payments", Wait: wait})
	if err != nil {
		return nil, err
	}
	return &payments.Service{Locker: locker, Fences: fences, Pool: pool, Provider: keyed{provider, key}, TTL: ttl}, nil
}

// steps counts the messages that a process sends to the database and to the provider, and those that it
// receives. It stops the process at one of them.
type steps struct {
	at     int
	before []byte
	first  string

	mu    sync.Mutex
	taken []string
}

func (s *steps) list() []string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.taken
}

// take stops the process until it gets a byte, or is killed.
func (s *steps) take(name string, sends []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.taken = append(s.taken, name)
	stop := len(s.taken) == s.at
	if len(s.before) > 0 && bytes.Contains(sends, s.before) {
		stop, s.before = true, nil
	}
	if name == s.first {
		stop, s.first = true, ""
	}
	if stop {
		fmt.Println(stopped)
		_, _ = os.Stdin.Read(make([]byte, 1))
	}
}

func (s *steps) dial(peer string) func(ctx context.Context, network, address string) (net.Conn, error) {
	return func(ctx context.Context, network, address string) (net.Conn, error) {
		c, err := (&net.Dialer{}).DialContext(ctx, network, address)
		return &counted{c, s, peer}, err
	}
}

// counted is a connection whose messages are steps.
type counted struct {
	net.Conn
	steps *steps
	peer  string
}

func (c *counted) Write(p []byte) (int, error) {
	c.steps.take("to "+c.peer, p)
	return c.Conn.Write(p)
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if n > 0 {
		c.steps.take("from "+c.peer, nil)
	}
	return n, err
}

// provider is a payment provider. It executes requests with one key once, and those without a key each time.
type provider struct {
	mu      sync.Mutex
	results map[string]string // by key
	charges map[int64]int     // how often an amount was charged
}

const keyHeader = "Idempotency-Key"

func (p *provider) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	defer p.mu.Unlock()
	cents, err := strconv.ParseInt(r.FormValue("cents"), 10, 64)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	key := r.Header.Get(keyHeader)
	result, known := p.results[key]
	if !known || key == "" {
		p.charges[cents]++
		result = fmt.Sprintf("charge %d of %d cents", p.charges[cents], cents)
		p.results[key] = result
	}
	_, _ = io.WriteString(w, result)
}

// charged returns how often an invoice was charged.
func (p *provider) charged(invoice int64) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.charges[centsOf(invoice)]
}

// centsOf is the amount of an invoice, which no other one has.
func centsOf(invoice int64) int64 { return 1000 + invoice }

// providerClient sends charges to a provider.
type providerClient struct {
	url  string
	http *http.Client
}

func (c *providerClient) Charge(ctx context.Context, key string, cents int64) (result string, err error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, fmt.Sprintf("%s?cents=%d", c.url, cents), nil)
	if err != nil {
		return "", err
	}
	if key != "" {
		r.Header.Set(keyHeader, key)
	}
	answer, err := c.http.Do(r)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, answer.Body.Close()) }()
	text, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = errors.New(answer.Status)
	}
	return string(text), err
}

// keyed replaces the idempotency key, unless it is to be that of the invoice.
type keyed struct {
	payments.Provider
	kind keyKind
}

func (k keyed) Charge(ctx context.Context, key string, cents int64) (string, error) {
	switch k.kind {
	case noKey:
		key = ""
	case keyOfFence:
		lock, _ := redlock.FromContext(ctx)
		key = strconv.FormatInt(lock.Fence(), 10)
	case keyOfInvoice:
	}
	return k.Provider.Charge(ctx, key, cents)
}
