package main

import (
	"context"

	"go.uber.org/zap"

	"github.com/troupe-ml/troupe/actors"
	"github.com/troupe-ml/troupe/config"
	"github.com/troupe-ml/troupe/messages"
)

// company is what the verbs need of the actors: one node that takes jobs and
// asks models.
type company interface {
	// StartJob submits a resolved task. Errors: Invalid, NotFound (function or
	// data set), Unavailable, Corrupt.
	StartJob(ctx context.Context, task *messages.TrainTask) (actors.Submission, error)
	// ResumeJob goes on with a job of the store. Errors: NotFound, Conflict (it
	// runs), Corrupt, Unavailable.
	ResumeJob(ctx context.Context, id string, task *messages.TrainTask) (actors.Submission, error)
	// WatchJob calls on with every event of a job, in order and one at a time,
	// and returns when the job has ended.
	WatchJob(ctx context.Context, id string, on func(*messages.JobEvent)) (*messages.JobResult, error)
	// StopJob ends a job as STOPPED; that it has ended is for WatchJob to say.
	StopJob(ctx context.Context, id, reason string) error
	// Logs is the URL of the folder that keeps what a job's programs printed,
	// "" when they printed nothing.
	Logs(id string) string
	inferrer
	// Close ends the node and waits until nothing of it is left.
	Close() error
}

// starter starts a company of one node.
type starter func(log *zap.Logger, node config.Node) (company, error)

// startCompany is the starter of the real company.
func startCompany(log *zap.Logger, node config.Node) (company, error) {
	c, err := actors.Start(actors.Config{Log: log, Node: node})
	if err != nil {
		return nil, err // not c: a nil *Company is no nil company
	}
	return c, nil
}
