package resp

import (
	"bytes"
	"errors"
	"net"
	"time"
)

// replay is a connection that only yields what was recorded.
type replay struct{ *bytes.Reader }

func (replay) Write([]byte) (int, error)        { return 0, errors.New("read only") }
func (replay) Close() error                     { return nil }
func (replay) LocalAddr() net.Addr              { return nil }
func (replay) RemoteAddr() net.Addr             { return nil }
func (replay) SetDeadline(time.Time) error      { return nil }
func (replay) SetReadDeadline(time.Time) error  { return nil }
func (replay) SetWriteDeadline(time.Time) error { return nil }
