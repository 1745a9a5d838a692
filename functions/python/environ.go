package python

import (
	"os"
	"strconv"
	"strings"
)

// environ is the environment of a process of p.
func (r *Runtime) environ(p Program, token string, s settings) []string {
	threads := strconv.Itoa(s.Threads)
	env := os.Environ()
	for k, v := range p.Env {
		env = append(env, k+"="+v)
	}
	env = append(env, // of two with one name the last counts
		"PYTHONPATH="+r.sdk+suffix(r.lookup(p, "PYTHONPATH")),
		"TROUPE_SOCKET="+r.hub.path, "TROUPE_TOKEN="+token,
		"OMP_NUM_THREADS="+threads, "MKL_NUM_THREADS="+threads, "OPENBLAS_NUM_THREADS="+threads, "NUMEXPR_NUM_THREADS="+threads,
	)
	for k, v := range map[string]string{
		"PYTHONHASHSEED":   "0", // the order of a set of strings, else drawn by each process
		"PYTHONUNBUFFERED": "1",
	} {
		if r.lookup(p, k) == "" {
			env = append(env, k+"="+v)
		}
	}
	return env
}

func suffix(path string) string {
	if path == "" {
		return ""
	}
	return ":" + path
}

// environ is how settings reach a process that was not forked.
func (s settings) environ() []string {
	cpus := make([]string, len(s.CPUs))
	for i, cpu := range s.CPUs {
		cpus[i] = strconv.Itoa(cpu)
	}
	return []string{
		"TROUPE_SLOT=" + strconv.Itoa(s.Slot), "TROUPE_CPUS=" + strings.Join(cpus, ","),
		"TROUPE_THREADS=" + strconv.Itoa(s.Threads), "TROUPE_MEMORY=" + strconv.FormatInt(s.Memory, 10),
	}
}
