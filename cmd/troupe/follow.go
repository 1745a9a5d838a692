package main

import (
	"context"
	"fmt"
	"time"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/messages"
)

// followJob shows a job of a server until it has ended, and returns as it
// ended. A signal ends only that; it is a leftError then.
func (s *session) followJob(c *client.Client, id string, t *messages.TrainTask, warned warnings) (*messages.JobResult, error) {
	ctx, release := s.whileLooking()
	defer release()
	v := s.newViewer(id, t, warned, 0)
	var result *messages.JobResult
	err := c.Events(ctx, id, "", func(e api.Event) error {
		if !e.Reset {
			v.show(e.Event)
		}
		if end := e.Event.GetEnded(); end != nil {
			result = end.GetResult()
		}
		return nil
	})
	v.close()
	if err == nil && result == nil { // its last event is gone
		view, lookErr := c.Job(ctx, id)
		result, err = view.GetResult(), lookErr
	}
	if err == nil && result == nil {
		err = fault.New("troupe.follow", fault.Unavailable, "job %s: its events have ended, and it has not", id)
	}
	if err == nil {
		return result, nil
	}
	again := fmt.Sprintf("follow it again with troupe task show --id %s --follow, stop it with troupe task stop --id %s", id, id)
	if gone := left(ctx, nil, fmt.Sprintf("no longer following: job %s goes on; %s", id, again)); gone != nil {
		return nil, gone
	}
	if fault.KindOf(err) == fault.Unavailable {
		return nil, fault.New("troupe.follow", fault.Unavailable, "job %s is lost sight of, and goes on with its server: %w; %s", id, err, again)
	}
	return nil, err
}

// lost says that a stream looks for its server.
func (s *session) lost(server string, patience time.Duration) {
	fmt.Fprintf(s.screen, "troupe: %s does not answer: trying for up to %v\n", server, patience)
}

// brief runs a request that a signal may end.
func (s *session) brief(do func(ctx context.Context) error) error {
	ctx, release := s.whileLooking()
	defer release()
	err := do(ctx)
	if err != nil {
		err = left(ctx, err, "")
	}
	return err
}

// remote runs a request to the server, which a signal may end.
func (s *session) remote(flags *remoteFlags, do func(ctx context.Context, c *client.Client) error) error {
	c, err := s.client(flags)
	if err != nil {
		return err
	}
	defer c.Close()
	return s.brief(func(ctx context.Context) error { return do(ctx, c) })
}
