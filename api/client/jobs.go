package client

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strconv"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/jobjson"
	"github.com/troupe-ml/troupe/messages"
)

// SubmitJob implements api.Jobs. It is repeated if there is a key.
func (c *Client) SubmitJob(ctx context.Context, key string, task *messages.TrainTask) (id string, warnings []string, err error) {
	k, err := post(jobjson.NewTrainRequest(task), "train")
	if err != nil {
		return "", nil, err
	}
	if key != "" {
		k.header.Set("Idempotency-Key", key)
		k.once = false
	}
	id, header, err := c.text(ctx, k)
	if err != nil {
		return "", nil, err
	}
	for _, quoted := range header.Values(jobjson.WarningHeader) {
		if warning, err := strconv.Unquote(quoted); err == nil {
			warnings = append(warnings, warning)
		}
	}
	return id, warnings, nil
}

// StopJob implements api.Jobs: it looks at the job, and stops the life that it
// sees, however often the request is sent.
func (c *Client) StopJob(ctx context.Context, id, reason string) error {
	task, err := c.Task(ctx, id)
	if err != nil {
		return err
	}
	return c.StopLife(ctx, id, reason, task.Life)
}

// StopLife implements api.Jobs.
func (c *Client) StopLife(ctx context.Context, id, reason string, life uint64) error {
	k := remove("tasks", id)
	k.query = url.Values{"life": {strconv.FormatUint(life, 10)}}
	if reason != "" {
		k.query.Set("reason", reason)
	}
	return c.quiet(ctx, k)
}

// ResumeStoredJob implements api.Jobs. It is done once: a job that was resumed
// runs, which would be a Conflict.
func (c *Client) ResumeStoredJob(ctx context.Context, id string, n uint32) error {
	k, err := post(api.ResumeRequest{Parallelism: n}, "tasks", id, "resume")
	if err != nil {
		return err
	}
	return c.quiet(ctx, k)
}

// ResizeJob implements api.Jobs.
func (c *Client) ResizeJob(ctx context.Context, id string, n uint32) error {
	k, err := post(api.ResizeRequest{Parallelism: n}, "tasks", id, "resize")
	if err != nil {
		return err
	}
	k.once = false // the same size again changes nothing
	return c.quiet(ctx, k)
}

// Tasks returns the jobs that have not ended, oldest first, as the server shows them.
func (c *Client) Tasks(ctx context.Context) (tasks []jobjson.Task, err error) {
	err = c.json(ctx, get("tasks"), &tasks)
	return tasks, err
}

// Task returns a job as the server shows it. NotFound.
func (c *Client) Task(ctx context.Context, id string) (task jobjson.TaskDetails, err error) {
	err = c.json(ctx, get("tasks", id), &task)
	return task, err
}

// Histories returns what all jobs have done, oldest first.
func (c *Client) Histories(ctx context.Context) (histories []jobjson.History, err error) {
	err = c.json(ctx, get("history"), &histories)
	return histories, err
}

// History returns what a job has done. NotFound.
func (c *Client) History(ctx context.Context, id string) (history jobjson.History, err error) {
	err = c.json(ctx, get("history", id), &history)
	return history, err
}

// RunningJobs implements api.Jobs.
func (c *Client) RunningJobs(ctx context.Context) ([]*messages.JobView, error) {
	tasks, err := c.Tasks(ctx)
	var views []*messages.JobView
	for _, t := range tasks {
		views = append(views, t.View())
	}
	return views, err
}

// Job implements api.Jobs.
func (c *Client) Job(ctx context.Context, id string) (*messages.JobView, error) {
	task, err := c.Task(ctx, id)
	if err != nil {
		return nil, err
	}
	return task.View(), nil
}

// AllJobs implements api.Jobs.
func (c *Client) AllJobs(ctx context.Context) ([]*messages.JobView, error) {
	histories, err := c.Histories(ctx)
	var views []*messages.JobView
	for _, h := range histories {
		views = append(views, h.View())
	}
	return views, err
}

// DeleteJob implements api.Jobs.
func (c *Client) DeleteJob(ctx context.Context, id string) error {
	return c.quiet(ctx, remove("history", id))
}

// PruneJobs forgets all jobs that have ended, and says how many those were.
func (c *Client) PruneJobs(ctx context.Context) (int, error) {
	var pruned api.Pruned
	err := c.json(ctx, remove("history"), &pruned)
	return pruned.Deleted, err
}

// Stacks implements api.Jobs.
func (c *Client) Stacks(ctx context.Context, id string) (string, error) {
	text, _, err := c.text(ctx, get("tasks", id, "stacks"))
	return text, err
}

// Infer implements api.Company.
func (c *Client) Infer(ctx context.Context, model string, data json.RawMessage) (json.RawMessage, error) {
	if !json.Valid(data) {
		return nil, fault.New("client.infer", fault.Invalid, "the data is no JSON: give samples, as the function takes them")
	}
	k, err := post(api.InferRequest{ModelID: model, Data: data}, "infer")
	if err != nil {
		return nil, err
	}
	k.once = false // a model answers the same again
	var answer api.InferResponse
	err = c.json(ctx, k, &answer)
	return answer.Predictions, err
}

// Cluster implements api.Company.
func (c *Client) Cluster(ctx context.Context) (nodes []api.Node, err error) {
	err = c.json(ctx, get("cluster"), &nodes)
	return nodes, err
}

// Ready implements api.Company. Unavailable too where no server is reached.
func (c *Client) Ready() error {
	_, err := c.Version(context.Background())
	return err
}

// Version asks a server that takes jobs for its version. It asks once.
func (c *Client) Version(ctx context.Context) (string, error) {
	k := get("health")
	k.once = true
	var health api.Health
	err := c.json(ctx, k, &health)
	return health.Version, err
}

// CreateToken makes a token on the server, and returns it. It takes the role
// admin. Invalid; Conflict: the name is taken.
func (c *Client) CreateToken(ctx context.Context, name, role string) (string, error) {
	k, err := post(api.TokenRequest{Name: name, Role: role}, "cluster", "tokens")
	if err != nil {
		return "", err
	}
	var token api.Token
	err = c.json(ctx, k, &token)
	return token.Token, err
}

// RevokeToken makes a token worthless. It takes the role admin. NotFound;
// Conflict: it is the last of an admin.
func (c *Client) RevokeToken(ctx context.Context, name string) error {
	k := call{method: http.MethodDelete, path: []string{"cluster", "tokens"}, query: url.Values{"name": {name}}}
	return c.quiet(ctx, k)
}
