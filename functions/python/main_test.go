package python_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/functions"
	"github.com/troupe-ml/troupe/functions/python"
)

// TestMain lets this binary be another process that has a runtime.
func TestMain(m *testing.M) {
	mode := os.Getenv("TROUPE_TEST_HOST")
	if mode == "" {
		os.Exit(m.Run())
	}
	if err := beHost(mode, os.Getenv("TROUPE_TEST_USER")); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	select {}
}

// beHost starts workers, says "ready", and goes on for ever: one that holds
// cores, or two real ones that are busy in C.
func beHost(mode, user string) error {
	if mode == "pin" {
		r, err := python.New(python.Config{Slots: min(2, config.Cores()), Pin: true, UserDir: user, IdleTimeout: -1, SDK: os.DirFS("testdata/fake")})
		if err != nil {
			return err
		}
		if err := register(r, "any", "testdata/network.py"); err != nil {
			return err
		}
		_, err = r.Run(context.Background(), functions.Invocation{Task: functions.Infer, Function: "any", Infer: json.RawMessage("1")})
		if err == nil {
			fmt.Println("ready")
		}
		return err
	}
	var busy atomic.Int32
	r, err := python.New(python.Config{Slots: 2, UserDir: user, Log: func(l python.Line) {
		if strings.HasPrefix(l.Text, "busy") && busy.Add(1) == 2 {
			fmt.Println("ready")
		}
	}})
	if err != nil {
		return err
	}
	if err := register(r, "busy", "testdata/busy"+mode+".py"); err != nil {
		return err
	}
	for slot := range 2 {
		go func() {
			_, err := r.Run(context.Background(), functions.Invocation{Task: functions.Infer, Function: "busy", Slot: slot, Infer: json.RawMessage("1")})
			fmt.Fprintln(os.Stderr, err)
		}()
	}
	return nil
}

func register(r *python.Runtime, name, path string) error {
	path, err := filepath.Abs(path)
	if err != nil {
		return err
	}
	return r.Register(python.Program{Name: name, Path: path})
}
