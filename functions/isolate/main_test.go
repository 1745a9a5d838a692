package isolate_test

import (
	"context"
	"fmt"
	"os"
	"runtime/debug"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/child"
	"github.com/troupe-ml/troupe/functions/isolate"
	"github.com/troupe-ml/troupe/functions/native"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/tensor"
)

// TestMain lets this binary be a child, and another process that has children.
func TestMain(m *testing.M) {
	isolate.Serve(func() (functions.Runtime, error) {
		switch os.Getenv("TROUPE_TEST_CHILD") {
		case "refuses":
			return nil, fault.New("test.open", fault.Invalid, "no functions today")
		case "exits":
			fmt.Println("last words")
			os.Exit(9)
		}
		r, err := native.New(known()...)
		if err == nil {
			r.Alone()
		}
		return r, err
	})
	if dir := os.Getenv("TROUPE_TEST_HOST"); dir != "" {
		beHost(dir)
	}
	os.Exit(m.Run())
}

// beHost has two functions run for ever, says "ready" once they do, and goes on.
func beHost(dir string) {
	inner, err := native.New(known()...)
	if err != nil {
		panic(err)
	}
	spinning := make(chan bool, 2)
	r := isolate.New(isolate.Config{Knows: inner, Dir: dir, Log: func(l child.Line) {
		if l.Text == "spinning" {
			spinning <- true
		}
	}})
	for slot := range 2 {
		go func() { _, _ = r.Run(context.Background(), asking("spins", slot)) }()
	}
	<-spinning
	<-spinning
	fmt.Println("ready")
	select {}
}

// asking is an invocation of a function that answers points.
func asking(function string, slot int) functions.Invocation {
	var model functions.Buffer
	if err := functions.WriteDict(&model, tensor.StateDict{tensor.NewFloat32("w", []int64{1}, []float32{1})}); err != nil {
		panic(err)
	}
	return functions.Invocation{
		Task: functions.Infer, Function: function, Infer: []byte("[[1]]"), Slot: slot, JobID: "job", Index: 4, BatchSize: 1, Model: model.Input(),
	}
}

// known are functions that do to their process what no function should.
func known() []native.Function {
	return []native.Function{
		raises(),
		does("well", func() {}),
		does("fails", func() { panic("no") }),
		does("exits", func() { os.Exit(3) }),
		does("panics", func() {
			done := make(chan bool)
			go func() { panic("on a goroutine of its own") }()
			<-done
		}),
		does("segfaults", func() { _ = unix.Kill(os.Getpid(), unix.SIGSEGV); select {} }),
		does("is killed", func() { _ = unix.Kill(os.Getpid(), unix.SIGKILL); select {} }),
		does("overflows", func() { debug.SetMaxStack(1 << 20); fmt.Println(overflow(0)) }),
		does("hoards", func() {
			var all [][]byte
			for len(all) < 1<<20 {
				all = append(all, []byte(strings.Repeat("x", 16<<20)))
			}
			fmt.Println(len(all))
		}),
		does("spins", func() {
			fmt.Println("spinning")
			for n := 0; n >= 0; { // heeds nothing
				n = (n + 1) % 7
			}
		}),
	}
}

func overflow(n int) int {
	if n < 0 {
		return n
	}
	return overflow(n+1) + 1
}

// does is a function that does something when it is asked.
func does(name string, what func()) native.Function {
	return native.Function{
		Name: strings.ReplaceAll(name, " ", "-"),
		Init: func(c *native.Call) error { _, err := c.Model.Float32("w", 1); return err },
		Open: func(*native.Call) (native.Model, error) { return deed(what), nil },
	}
}

type deed func()

func (d deed) Train(native.Batch) (float64, error)         { d(); return 0, nil }
func (d deed) Validate(native.Batch) (native.Score, error) { d(); return native.Score{}, nil }
func (d deed) Predict(b native.Batch) ([]any, error)       { d(); return []any{os.Getpid()}, nil }

// raises makes a model and panics on its third batch.
func raises() native.Function {
	return native.Function{
		Name: "raises",
		Init: func(c *native.Call) error { _, err := c.Model.Float32("w", 1); return err },
		Open: func(*native.Call) (native.Model, error) { return panicking{}, nil },
	}
}

type panicking struct{}

func (panicking) Train(b native.Batch) (float64, error) {
	if b.Index == 2 {
		return float64(b.X[len(b.X)]), nil // out of range
	}
	return 0, nil
}

func (panicking) Validate(native.Batch) (native.Score, error) { return native.Score{}, nil }
