// Package client talks to a node over HTTP. A Client is an api.Company: what
// works with the company in this process works with one elsewhere.
//
//	c, err := client.New(client.Config{Server: "http://127.0.0.1:8780"})
//	id, warnings, err := c.SubmitJob(ctx, client.NewKey(), &messages.TrainTask{FunctionName: "mlp", Dataset: "digits"})
//	err = c.Events(ctx, id, "", func(e api.Event) error { … })   // until the job has ended
//	view, err := c.Job(ctx, id)
//
// Errors are of package fault, of the kind that the server says; one that cannot
// be reached is Unavailable. What may be repeated is, a few times, when the
// server cannot be reached or says that it is busy: reading, deleting, stopping,
// resizing, and submitting under a key. Events and followed logs go on over
// a restart of the server where they were (Config.Patience).
//
// With a token (https) the client talks to the one server that the token is for.
// Beyond api.Company: Tasks, Task, History and Histories as the server shows
// them, PruneJobs, CreateToken, RevokeToken, and Version.
package client
