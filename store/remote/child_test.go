package remote_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/remote"
)

// childEnv tells the test binary that it is a child, and where the store is.
const childEnv = "TROUPE_STORE_REMOTE_TEST_CHILD"

// runChild does a child's work and exits, or returns in the parent.
func runChild() {
	url := os.Getenv(childEnv)
	if url == "" {
		return
	}
	if err := claimAll(url); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	os.Exit(0)
}

const claims = 200

func claimKey(i int) string { return fmt.Sprintf("jobs/%d/incarnations/1/claim", i) }

// claimAll tries to get every claim, and prints the numbers of those it got.
func claimAll(url string) error {
	s := remote.New(remote.At(http.DefaultClient, url))
	fmt.Println("ready")
	if _, err := bufio.NewReader(os.Stdin).ReadString('\n'); err != nil {
		return err
	}
	for i := range claims {
		err := s.PutIfAbsent(context.Background(), claimKey(i), text(fmt.Sprint(os.Getpid())))
		switch {
		case err == nil:
			fmt.Println(i)
		case fault.KindOf(err) != fault.Conflict:
			return err
		}
	}
	return nil
}

// Four processes race for claims over connections that lose every third answer:
// each claim has exactly one winner, and names it.
func TestFourProcessesRaceForClaims(t *testing.T) {
	const racers = 4
	leaders := file(t, t.TempDir()+"/store")
	server := httptest.NewServer(&loser{handler: remote.NewHandler(leaders), lose: func(r *http.Request, n int) bool { return r.Method == http.MethodPut && n%3 == 0 }})
	defer server.Close()
	cmds, ins, outs := [racers]*exec.Cmd{}, [racers]io.WriteCloser{}, [racers]*bufio.Reader{}
	for i := range racers {
		exe, err := os.Executable()
		require.NoError(t, err)
		cmds[i] = exec.Command(exe)
		cmds[i].Env = append(os.Environ(), childEnv+"="+server.URL)
		cmds[i].Stderr = os.Stderr
		ins[i], err = cmds[i].StdinPipe()
		require.NoError(t, err)
		out, err := cmds[i].StdoutPipe()
		require.NoError(t, err)
		outs[i] = bufio.NewReader(out)
		require.NoError(t, cmds[i].Start())
		line, err := outs[i].ReadString('\n')
		require.NoError(t, err)
		require.Equal(t, "ready\n", line)
	}
	for i := range racers {
		_, err := io.WriteString(ins[i], "go\n")
		require.NoError(t, err)
	}
	winner := map[int]int{} // claim -> pid
	for i := range racers {
		for {
			var claim int
			if _, err := fmt.Fscanln(outs[i], &claim); err != nil {
				require.ErrorIs(t, err, io.EOF)
				break
			}
			require.NotContains(t, winner, claim, "two winners")
			winner[claim] = cmds[i].Process.Pid
		}
		require.NoError(t, cmds[i].Wait())
	}
	require.Len(t, winner, claims, "a claim without a winner")
	for claim, pid := range winner {
		b, err := store.Read(t.Context(), leaders, claimKey(claim), 100)
		require.NoError(t, err)
		require.Equal(t, fmt.Sprint(pid), string(b))
	}
}
