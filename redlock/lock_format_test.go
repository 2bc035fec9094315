package redlock

import (
	"bytes"
	"encoding/json"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// printed returns a value in every form in which programs print one.
func printed(t *testing.T, v any) (forms []string) {
	t.Helper()
	for _, format := range []string{"%v", "%+v", "%#v", "%s", "%q"} {
		forms = append(forms, fmt.Sprintf(format, v))
	}
	raw, err := json.Marshal(v)
	require.NoError(t, err)
	forms = append(forms, string(raw))
	for _, handler := range []func(b *bytes.Buffer) slog.Handler{
		func(b *bytes.Buffer) slog.Handler { return slog.NewTextHandler(b, nil) },
		func(b *bytes.Buffer) slog.Handler { return slog.NewJSONHandler(b, nil) },
	} {
		var b bytes.Buffer
		slog.New(handler(&b)).Info("said", "value", v)
		forms = append(forms, b.String())
	}
	return forms
}

func TestAPrintedLockShowsItsIDAndNoToken(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker(WithFencing(), WithOwner("me"))
		k := take(t, l, "invoice/42", 2*time.Second)
		token := k.Token()
		require.Len(t, k.ID(), 24)
		require.NotContains(t, token, k.ID())
		for _, form := range printed(t, k) {
			require.NotContains(t, form, token)
			require.NotContains(t, form, token[len(token)-16:])
			require.Contains(t, form, k.ID())
			require.Contains(t, form, "invoice/42")
			require.Contains(t, form, strconv.FormatInt(k.Fence(), 10))
		}
		require.Equal(t, fmt.Sprintf(`lock "invoice/42" id=%s fence=%d remaining=%v`, k.ID(), k.Fence(), k.Remaining().Round(time.Millisecond)), k.String())
		raw, err := json.Marshal(k)
		require.NoError(t, err)
		require.JSONEq(t, fmt.Sprintf(`{"names":["invoice/42"],"id":%q,"fence":%d,"remaining_ms":%d}`,
			k.ID(), k.Fence(), k.Remaining().Milliseconds()), string(raw))
	})
}

func TestAnIDIsTheSameForSharesAndAfterResume(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		k := take(t, l, "a", time.Minute)
		id := k.ID()
		require.Equal(t, id, shared(t, k).ID())
		require.NotEqual(t, id, take(t, l, "b", time.Minute).ID())
		claim, err := k.Detach()
		require.NoError(t, err)
		again, err := fl.locker().Resume(bg, claim)
		require.NoError(t, err)
		require.Equal(t, id, again.ID())
		require.NoError(t, again.Release(bg))
	})
}

// A Locker's fields change all the time. Printing a Locker crashed the process.
func TestALockerIsPrintedWhileItIsBusy(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		l := fl.locker()
		var busy sync.WaitGroup
		for i := range 4 {
			busy.Go(func() {
				for range 200 {
					k, err := l.Acquire(bg, strconv.Itoa(i), time.Minute)
					if err == nil {
						_ = fmt.Sprintf("%+v", k)
						_ = k.Release(bg)
					}
				}
			})
		}
		for range 100 {
			for _, form := range printed(t, l) {
				if !strings.Contains(form, "{}") { // JSON shows no field
					require.Contains(t, form, "n1")
				}
			}
		}
		busy.Wait()
		require.Equal(t, `locker over ["n1" "n2" "n3"]`, l.String())
	})
}

// Package fmt prints the fields of a context that is not a Stringer, and they change meanwhile.
func TestTheContextOfALockIsPrintedWithoutItsToken(t *testing.T) {
	inBubble(t, 3, func(fl *testbed) {
		k := take(t, fl.locker(), "a", time.Minute)
		for _, format := range []string{"%s", "%v", "%+v", "%#v", "%q"} {
			text := fmt.Sprintf(format, k.Context())
			require.Contains(t, text, k.ID(), format)
			require.NotContains(t, text, k.Token(), format)
		}
		require.NoError(t, k.Release(bg))
	})
}

func TestANilLockAndLockerCanBeLogged(t *testing.T) {
	var log bytes.Buffer
	slog.New(slog.NewTextHandler(&log, nil)).Info("failed", "lock", (*Lock)(nil), "locker", (*Locker)(nil))
	require.Contains(t, log.String(), "lock=<nil> locker=<nil>")
}
