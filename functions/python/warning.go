package python

// warning is a warning of the program's, in a job.
type warning struct{ job, text string }

// maxSaid bounds how many warnings of a program are told apart.
const maxSaid = 1000

// firstTime reports whether a warning is new in a job.
func (p *program) firstTime(job, text string) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	w := warning{job, text}
	if p.said[w] {
		return false
	}
	if len(p.said) >= maxSaid {
		clear(p.said) // of jobs that have long ended, as a rule
	}
	p.said[w] = true
	return true
}

// warn hands on what the program's run gave reason to, each text once a job.
func (a *attempt) warn(texts []string) {
	for _, text := range texts {
		if a.program.firstTime(a.inv.JobID, text) {
			a.rt.config.Warn("function " + a.program.title() + ": " + text)
		}
	}
}
