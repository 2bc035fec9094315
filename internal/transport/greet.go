package transport

import (
	"context"
	"errors"
	"fmt"

	"github.com/quorumlock/go-redlock/internal/resp"
)

// Call is a command for Ask.
type Call struct {
	Name string
	Args []any
}

// Greet authenticates, selects the database, names the connection, and asks calls behind that, all in one round
// trip. It returns the replies to those calls. With an error it may return some of them. ctx ends it by closing
// the socket, which alone ends redigo's reads.
func (c *Conn) Greet(ctx context.Context, behind ...Call) ([]Reply, error) {
	stop := context.AfterFunc(ctx, c.Abort)
	defer stop()
	opening, err := c.opening(ctx)
	if err != nil {
		return nil, err
	}
	replies, err := c.ask(append(opening, behind...))
	for i, call := range opening {
		// A connection without a name is as good.
		if i < len(replies) && call.Name != "CLIENT" && replies[i].Err != nil {
			return nil, c.ungreeted(ctx, fmt.Errorf("pool: %s: %w", call.Name, resp.Clean(replies[i].Err)))
		}
	}
	if err != nil {
		err = c.ungreeted(ctx, err)
	}
	return replies[min(len(opening), len(replies)):], err
}

// ungreeted returns the error of a greeting.
func (c *Conn) ungreeted(ctx context.Context, err error) error {
	return c.settings.unreachable(c.abortReason(ctx, c.noGreeting(ctx, err)))
}

// noGreeting explains an error before the server's first reply. Redis with TLS closes a connection without
// TLS and sends nothing, so a TLS handshake on another connection shows what it is.
func (c *Conn) noGreeting(ctx context.Context, err error) error {
	encrypted, hidden := c.settings.TLS != nil, c.in == nil
	greeted := !hidden && c.in.greeted
	if !hidden && !greeted && !encrypted && isClosing(err) && speaksTLS(ctx, c.settings) {
		return errNeedsTLS
	}
	return noGreeting(greeted, hidden, encrypted, err)
}

// abortReason returns the error of a greeting. Aborting the connection fails its read with an
// error of the network, which would hide that the dial timeout was the reason, or the cause of ctx.
func (c *Conn) abortReason(ctx context.Context, err error) error {
	if ctx.Err() == nil {
		return err
	}
	if cause := context.Cause(ctx); !errors.Is(cause, ctx.Err()) {
		return cause
	}
	return fmt.Errorf("pool: the handshake took longer than the dial timeout of %v", c.settings.DialTimeout)
}

// opening returns the calls that every connection begins with. A wrapped pool's dial function
// authenticates and selects the database itself: a second AUTH could replace the user that the service has chosen.
func (c *Conn) opening(ctx context.Context) (calls []Call, err error) {
	if !c.wrapped() {
		// The credentials are read for each dial, so a rotated password needs no restart.
		user, password, err := c.settings.secrets(ctx)
		if err != nil {
			return nil, err
		}
		c.password = password // before the reply to AUTH, which may repeat it
		switch {
		// AUTH with two words needs Redis 6. Without a user the old form is used.
		case user != "":
			calls = append(calls, Call{"AUTH", []any{user, password}})
		// Without a user the password is that of the default user.
		case password != "":
			calls = append(calls, Call{"AUTH", []any{password}})
		}
		if c.settings.Database != 0 {
			calls = append(calls, Call{"SELECT", []any{c.settings.Database}})
		}
	}
	return append(calls, Call{"CLIENT", []any{"SETNAME", c.settings.ClientName}}), nil
}

// Ask sends all calls in one flush, and returns their replies in order. With an error it returns those that came.
// They are short: a socket accepts the calls before the server has read them. ctx ends it by closing the socket.
func (c *Conn) Ask(ctx context.Context, calls ...Call) ([]Reply, error) {
	stop := context.AfterFunc(ctx, c.Abort)
	defer stop()
	return c.ask(calls)
}

// AskMore is Ask as a part of the greeting: an error says so.
func (c *Conn) AskMore(ctx context.Context, calls ...Call) ([]Reply, error) {
	replies, err := c.Ask(ctx, calls...)
	if err != nil {
		err = c.ungreeted(ctx, err)
	}
	return replies, err
}

func (c *Conn) ask(calls []Call) ([]Reply, error) {
	unsaid := c.sendAll(calls)
	replies, err := c.receiveAll(len(calls)) // after a failed write too: it fails, at the latest with its context
	if unsaid != nil && !resp.IsServerError(err) && !errors.Is(err, resp.ErrLimit) {
		return replies, unsaid
	}
	return replies, err
}

// sendAll writes all calls.
func (c *Conn) sendAll(calls []Call) error {
	for _, call := range calls {
		if err := c.Send(call.Name, call.Args); err != nil {
			return err
		}
	}
	return c.Flush()
}

// receiveAll reads n replies, also after an error of the server: the connection must not be left with replies
// unread.
func (c *Conn) receiveAll(n int) (replies []Reply, err error) {
	var last error
	replies = make([]Reply, 0, n)
	for range n {
		r, err := c.Receive()
		switch {
		// An error that the server sent before it closed the connection ("max number of clients reached",
		// "protected mode") explains more than the closing.
		case err != nil && last != nil:
			return replies, fmt.Errorf("%w (%w)", last, err)
		case err != nil:
			return replies, err
		case r.Err != nil:
			last = resp.Clean(r.Err)
		}
		replies = append(replies, r)
	}
	return replies, nil
}
