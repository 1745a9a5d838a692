package e2e_test

import (
	"fmt"
	"os/exec"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Of four who go on with a dead job at once, the moment it dies, one does; the
// others end by themselves while it runs, naming it.
func TestE2EOneOfFourGoesOn(t *testing.T) {
	t.Parallel()
	h := newHome(t)
	type racer struct {
		cmd  *exec.Cmd
		says strings.Builder
		code int
	}
	kill := func(cmd *exec.Cmd) { require.NoError(t, cmd.Process.Kill()) }
	first := start(t, h).cmd
	kill(first) // and it is not waited for
	defer func() { _ = first.Wait() }()
	for round := range 6 {
		racers, over := make([]racer, 4), make(chan int, 4)
		for i := range racers {
			r := &racers[i]
			r.cmd = h.command(t, "run", "--resume", "last")
			r.cmd.Stderr = &r.says
			require.NoError(t, r.cmd.Start())
			go func() {
				_ = r.cmd.Wait()
				r.code = r.cmd.ProcessState.ExitCode()
				over <- i
			}()
		}
		lost := map[int]bool{}
		for range 3 {
			i := <-over // or it is ended after patience, with another code
			lost[i] = true
			require.Equal(t, 4, racers[i].code, "%s", &racers[i].says)
		}
		winner := -1
		for i := range racers {
			if !lost[i] {
				winner = i
			}
		}
		for i := range lost {
			require.Contains(t, racers[i].says.String(), fmt.Sprintf("(pid %d), as incarnation %d: stop it there", racers[winner].cmd.Process.Pid, round+2))
		}
		kill(racers[winner].cmd)
		<-over
	}
}
