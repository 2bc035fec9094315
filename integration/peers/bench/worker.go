//go:build unix

package main

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"

	"github.com/quorumlock/go-redlock/integration/peers/load"
)

// workerFlag makes this program the process of one adapter. The process reads a load.Spec,
// writes a line when it is ready, begins when it reads a line, and prints a load.Result. It ends
// when its standard input is closed.
const workerFlag = "--worker"

// work does not close its clients, because closing a client of a frozen server may take long. The
// end of the process closes the connections.
func work(ctx context.Context, in io.Reader, out io.Writer) error {
	lines := bufio.NewReader(in)
	line, err := lines.ReadBytes('\n')
	if err != nil {
		return err
	}
	var spec load.Spec
	if err := json.Unmarshal(line, &spec); err != nil {
		return err
	}
	run, err := load.Prepare(ctx, spec)
	if err != nil {
		return err
	}
	runtime.GC()
	if _, err := fmt.Fprintln(out, "ready"); err != nil {
		return err
	}
	if _, err := lines.ReadBytes('\n'); err != nil {
		return err
	}
	go endWith(lines)
	stop, err := profile(os.Getenv(profileFolder), spec.Adapter)
	if err != nil {
		return err
	}
	result, err := run.Measure(ctx)
	if err := errors.Join(err, stop()); err != nil {
		return err
	}
	return json.NewEncoder(out).Encode(result)
}

// profileFolder is the environment variable of a folder. If it is set each adapter's process
// writes a CPU profile into that folder.
const profileFolder = "REDLOCK_BENCH_PROFILES"

func profile(folder, adapter string) (stop func() error, err error) {
	if folder == "" {
		return func() error { return nil }, nil
	}
	f, err := os.CreateTemp(folder, strings.ReplaceAll(adapter, " ", "-")+"-*.pprof")
	if err != nil {
		return nil, err
	}
	return func() error { pprof.StopCPUProfile(); return f.Close() }, pprof.StartCPUProfile(f)
}

// endWith ends the process when its parent has ended.
func endWith(in io.Reader) {
	_, _ = io.Copy(io.Discard, in)
	os.Exit(1)
}

// A worker is the process of one adapter.
type worker struct {
	cmd *exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
}

// maxExit bounds how long a process may take to end after its result.
const maxExit = 15 * time.Second

// startWorker starts a process and returns when it is ready.
func startWorker(ctx context.Context, spec load.Spec) (*worker, error) {
	self, err := os.Executable()
	if err != nil {
		return nil, err
	}
	w := &worker{cmd: exec.CommandContext(ctx, self, workerFlag)}
	w.cmd.Stderr = os.Stderr
	if w.in, err = w.cmd.StdinPipe(); err != nil {
		return nil, err
	}
	out, err := w.cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	w.out = bufio.NewReader(out)
	if err := w.cmd.Start(); err != nil {
		return nil, err
	}
	if err := json.NewEncoder(w.in).Encode(spec); err != nil {
		w.kill()
		return nil, errors.Join(err, w.wait())
	}
	if _, err := w.out.ReadString('\n'); err != nil {
		return nil, errors.Join(fmt.Errorf("%s failed to start", spec.Adapter), w.wait())
	}
	return w, nil
}

func (w *worker) begin() error {
	_, err := fmt.Fprintln(w.in, "go")
	return err
}

func (w *worker) result() (r load.Result, err error) {
	return r, json.NewDecoder(w.out).Decode(&r)
}

// wait waits for the end of the process, and kills it if that takes too long.
func (w *worker) wait() error {
	late := time.AfterFunc(maxExit, w.kill)
	defer late.Stop()
	return w.cmd.Wait()
}

func (w *worker) kill() { _ = w.cmd.Process.Kill() }
