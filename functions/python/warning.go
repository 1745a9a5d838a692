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

// warn hands on what the program's run gave reason to: to who asked for the run,
// else to who runs this, each text once a job; of job "" is what is of the program.
func (a *attempt) warn(job string, texts ...string) {
	for _, text := range texts {
		said := "function " + a.program.title() + ": " + text
		switch {
		case a.inv.Warn != nil:
			a.inv.Warn(said)
		case a.program.firstTime(job, text):
			a.rt.config.Warn(said)
		}
	}
}

// slowness says why each worker of the program imports it anew; "": none does.
func (p *program) slowness() string {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.fresh || p.reason == "" {
		return ""
	}
	return p.reason + ": each worker imports it anew, which takes longer than a fork"
}
