package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// What events of a job that runs are so far: those until nothing has come for a
// moment, the first of them after a little longer.
const (
	firstEvent = 2 * time.Second
	nextEvent  = 500 * time.Millisecond
)

// newEventsCommand returns the verb that shows what happens.
func newEventsCommand(s *session) *cobra.Command {
	server, id, output, follow := &remoteFlags{}, "", "text", false
	cmd := &cobra.Command{
		Use:   "events --id ID | events -f",
		Short: "Show what happens to jobs",
		Long: `Show the events of a job so far, or with -f also those to come, until it has
ended. Without --id, -f shows the events to come of all jobs. With -o json -f
prints an object a line. Ctrl-C ends that and not the job.`,
		Example:     "  troupe events --id 01jcx5zq8w3f\n  troupe events -f\n  troupe events --id 01jcx5zq8w3f -f -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if id == "" && !follow {
				return fault.New("events.flags", fault.Invalid, "no job given: say which with --id, or follow all with -f")
			}
			print := s.eventPrinter(output)
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				switch {
				case follow:
					return c.Events(ctx, id, "", print)
				case output == "json":
					return s.eventList(ctx, c, id)
				}
				return soFar(ctx, c, id, print)
			})
		},
	}
	registerJob(cmd.Flags(), &id)
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with what happens from now on")
	server.register(cmd.Flags())
	registerOutput(cmd.Flags(), &output)
	s.complete(cmd, "id", allJobs, server)
	return cmd
}

// errSoFar ends a stream that has shown what there was.
var errSoFar = errors.New("that is all so far")

// soFar calls on with the events of a job up to now.
func soFar(ctx context.Context, c *client.Client, id string, on func(api.Event) error) error {
	now, err := c.Job(ctx, id)
	if err != nil {
		return err
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	quiet := time.AfterFunc(firstEvent, func() { cancel(errSoFar) })
	defer quiet.Stop()
	err = c.Events(ctx, id, "", func(e api.Event) error {
		if isBehind(e.Event, now) {
			return errSoFar
		}
		quiet.Reset(nextEvent)
		return on(e)
	})
	if err != nil && (errors.Is(err, errSoFar) || errors.Is(context.Cause(ctx), errSoFar)) {
		return nil
	}
	return err
}

// isBehind reports whether an event has come after a job looked like that.
func isBehind(e *messages.JobEvent, then *messages.JobView) bool {
	inc := e.GetJob().GetIncarnation()
	if inc != then.GetIncarnation() {
		return inc > then.GetIncarnation()
	}
	if started := e.GetEpochStarted(); started != nil {
		return started.GetEpoch() > then.GetEpoch()
	}
	m := e.GetRoundMerged()
	return m != nil && (m.GetEpoch() > then.GetEpoch() || m.GetEpoch() == then.GetEpoch() && m.GetRound() > then.GetRound())
}

// eventRow is an event, as -o json prints it.
type eventRow struct {
	ID    string          `json:"id"`    // to go on behind it
	Event string          `json:"event"` // such as round_merged, or reset: some are gone
	Data  json.RawMessage `json:"data"`  // as the event stream of the API has it
}

func newEventRow(e api.Event) eventRow {
	if e.Reset {
		return eventRow{ID: e.Cursor, Event: "reset", Data: json.RawMessage("null")}
	}
	return eventRow{ID: e.Cursor, Event: jobjson.EventName(e.Event), Data: jobjson.EncodeEvent(e.Event)}
}

func (s *session) eventList(ctx context.Context, c *client.Client, id string) error {
	rows := []eventRow{}
	err := soFar(ctx, c, id, func(e api.Event) error {
		rows = append(rows, newEventRow(e))
		return nil
	})
	if err != nil {
		return err
	}
	return s.printJSON(rows)
}

// eventPrinter returns what prints events, one after the other.
func (s *session) eventPrinter(output string) func(api.Event) error {
	if output == "json" {
		return func(e api.Event) error { return s.printJSON(newEventRow(e)) }
	}
	before := seen{}
	return func(e api.Event) error {
		_, err := fmt.Fprintln(s.Out, eventLine(e, before))
		return err
	}
}

// eventLine is an event for a person who has seen those before.
func eventLine(e api.Event, before seen) string {
	if e.Reset {
		return "(events before this are gone)"
	}
	goesOn := before.add(e.Event)
	at := time.UnixMilli(e.Event.GetTimeMs()).UTC().Format("2006-01-02T15:04:05.000Z")
	return strings.TrimRight(fmt.Sprintf("%s  %s  %-15s  %s", at, e.Event.GetJob().GetId(), jobjson.EventName(e.Event), eventDetails(e.Event, goesOn)), " ")
}

func eventDetails(e *messages.JobEvent, goesOn string) string {
	switch what := e.GetWhat().(type) {
	case *messages.JobEvent_Started:
		text := fmt.Sprintf("N=%d on %s, waited %s", what.Started.GetParallelism(), count(int(what.Started.GetSlots()), "slot"), seconds(float64(what.Started.GetQueuedMs())/1000))
		if goesOn != "" {
			text += ", " + goesOn
		}
		return text
	case *messages.JobEvent_EpochStarted:
		return fmt.Sprintf("epoch %d  N=%d", what.EpochStarted.GetEpoch(), what.EpochStarted.GetParallelism())
	case *messages.JobEvent_RoundMerged:
		r := what.RoundMerged
		return fmt.Sprintf("epoch %d  round %d  N=%d  loss %s  samples %d  %s", r.GetEpoch(), r.GetRound(), r.GetParallelism(), orDash("%.3f", measured(&r.Loss)), r.GetSamples(), seconds(float64(r.GetDurationUs())/1e6))
	case *messages.JobEvent_FunctionFailed:
		a, next := what.FunctionFailed.GetAttempt(), "is tried again"
		if what.FunctionFailed.GetGivenUp() {
			next = "is given up"
		}
		text, _, _ := strings.Cut(what.FunctionFailed.GetFailure().GetText(), "\n")
		return fmt.Sprintf("epoch %d  round %d  function %d %s: %s", a.GetEpoch(), a.GetRound(), a.GetFunction(), next, text)
	case *messages.JobEvent_EpochFinished:
		return epochLine(what.EpochFinished.GetRecord(), 0)
	case *messages.JobEvent_Warned:
		return what.Warned.GetText()
	case *messages.JobEvent_TrainingEnded:
		return what.TrainingEnded.GetReason()
	case *messages.JobEvent_TakenOver:
		return what.TakenOver.GetFailure().GetText()
	case *messages.JobEvent_Ended:
		r := what.Ended.GetResult()
		text, _, _ := strings.Cut(r.GetFailure().GetText(), "\n")
		return strings.TrimSpace(jobjson.StateName(r.GetPhase()) + "  " + text)
	}
	return ""
}
