package scheduler

import (
	"time"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/internal/task"
	"github.com/troupe-ml/troupe/internal/wire"
	"github.com/troupe-ml/troupe/messages"
)

// submit queues a job, or finds the one that was submitted under this key.
func (s *state) submit(now time.Time, m *messages.SubmitJob) *messages.SubmitJobReply {
	reply, err := s.accept(now, m)
	if err != nil {
		return &messages.SubmitJobReply{Failure: wire.Failure(err)}
	}
	return reply
}

func (s *state) accept(now time.Time, m *messages.SubmitJob) (*messages.SubmitJobReply, error) {
	if reply, err := s.seen(m.GetKey()); reply != nil || err != nil {
		return reply, err
	}
	resolved, err := task.Resolve(m.GetTask())
	if err != nil {
		return nil, err
	}
	id := m.GetJobId()
	if id == "" {
		id = s.newID()
	}
	if s.jobs[id] != nil {
		return nil, fault.New("scheduler.submit", fault.Conflict, "job %s is there already", id)
	}
	return s.enqueue(now, now, m.GetSubmittedMs(), &job{id: id, key: m.GetKey(), task: resolved}, ""), nil
}

// resume queues a job again that does not run.
func (s *state) resume(now time.Time, m *messages.ResumeJob) *messages.SubmitJobReply {
	reply, err := s.takeUp(now, m)
	if err != nil {
		return &messages.SubmitJobReply{Failure: wire.Failure(err)}
	}
	return reply
}

func (s *state) takeUp(now time.Time, m *messages.ResumeJob) (*messages.SubmitJobReply, error) {
	if reply, err := s.seen(m.GetKey()); reply != nil || err != nil {
		return reply, err
	}
	if s.jobs[m.GetJobId()] != nil {
		return nil, fault.New("scheduler.resume", fault.Conflict, "job %s has not ended: stop it before you resume it", m.GetJobId())
	}
	resolved, err := task.Resolve(m.GetTask())
	if err != nil {
		return nil, err
	}
	before := s.ended.take(m.GetJobId())
	after := max(m.GetAfterIncarnation(), before.incarnation)
	waited := time.Duration(m.GetWaitedMs()) * time.Millisecond
	return s.enqueue(now, now.Add(-waited), m.GetSubmittedMs(), &job{
		id: m.GetJobId(), key: m.GetKey(), earlier: before.keys, task: resolved, seq: before.seq,
		incarnation: after, after: after,
	}, m.GetHome()), nil
}

// seen returns the answer to a submission or resume that came before, nil for
// one that is new.
func (s *state) seen(key string) (*messages.SubmitJobReply, error) {
	if key == "" {
		return nil, fault.New("scheduler.submit", fault.Invalid, "the submission has no key: give each its own")
	}
	id, again := s.keys[key]
	if !again {
		return nil, nil
	}
	reply := &messages.SubmitJobReply{JobId: id}
	if j := s.jobs[id]; j != nil {
		reply.Warnings, reply.AfterIncarnation = j.warnings, j.after
	} else if e, ok := s.ended.get(id); ok {
		reply.Warnings, reply.AfterIncarnation = e.warnings, e.after
	}
	return reply, nil
}

// enqueue puts a job into the queue, where it has been since then, and starts it
// if a slot is free. What it says of that is dated to when the job was submitted,
// in milliseconds since 1970, so that who says it again says the same; 0: now. One
// that runs on a node already, its home, goes on there instead.
func (s *state) enqueue(now, since time.Time, submittedMs int64, j *job, home string) *messages.SubmitJobReply {
	at := now
	if submittedMs > 0 {
		at = time.UnixMilli(submittedMs)
	}
	s.submissions++
	j.submission, j.submitted, j.grants = s.submissions, since, map[string]uint32{}
	s.jobs[j.id], s.keys[j.key] = j, j.id
	if home == "" {
		s.queue = insert(s.queue, j)
	} else {
		s.goOn(j, home)
	}
	s.post(j, at, &messages.JobEvent{What: &messages.JobEvent_Queued{Queued: &messages.JobQueued{}}})
	o := j.task.GetOptions()
	for _, warning := range []string{s.wavesWarning(j, s.clamp(j, o.GetDefaultParallelism())), s.labelsWarning(j)} {
		if warning != "" {
			j.warnings = append(j.warnings, warning)
			s.warn(j, at, warning)
		}
	}
	s.settle(now)
	return &messages.SubmitJobReply{JobId: j.id, Warnings: j.warnings, AfterIncarnation: j.after}
}

// stop drops a queued job, and remembers of any other that it is to stop.
func (s *state) stop(now time.Time, m *messages.StopJob) *messages.StopJobReply {
	j := s.jobs[m.GetJobId()]
	switch {
	case j == nil:
		return &messages.StopJobReply{Failure: wire.Failure(s.cannotStop(m.GetJobId()))}
	case !j.means(m.GetKey()):
		return &messages.StopJobReply{Failure: wire.Failure(j.resumed("scheduler.stop"))}
	case j.phase == queued:
		result := &messages.JobResult{
			Phase:   messages.Phase_PHASE_STOPPED,
			Failure: &messages.Failure{Op: "scheduler.stop", Text: m.GetReason()},
		}
		end := event{job: j.id, event: &messages.JobEvent{What: &messages.JobEvent_Ended{Ended: &messages.JobEnded{Result: result}}}}
		if j.after > 0 { // else nobody would look at it: what is of lower incarnations is old
			end.incarnation, j.incarnation = j.after+1, j.after+1
		}
		s.news = append(s.news, end)
		s.finish(now, j, messages.Phase_PHASE_STOPPED)
		return &messages.StopJobReply{Ended: true}
	case j.stop == nil:
		j.stop = m
		s.touch(j)
	}
	return &messages.StopJobReply{}
}

// cannotStop says why a job that does not run cannot be stopped; nil where it
// is stopped already.
func (s *state) cannotStop(id string) error {
	e, ok := s.ended.get(id)
	switch {
	case !ok:
		return fault.New("scheduler.stop", fault.NotFound, "there is no job %s", id)
	case e.phase == messages.Phase_PHASE_STOPPED:
		return nil
	case e.phase == messages.Phase_PHASE_TAKEN_OVER:
		return fault.New("scheduler.stop", fault.Conflict, "job %s was taken over by another process: stop it there", id)
	}
	return fault.New("scheduler.stop", fault.Conflict, "job %s has ended already", id)
}
