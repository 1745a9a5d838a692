package job_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/troupe-ml/troupe/internal/fault"
	"github.com/troupe-ml/troupe/store"
	"github.com/troupe-ml/troupe/store/job"
)

func putText(t *testing.T, s store.Store, key, text string) {
	t.Helper()
	require.NoError(t, s.Put(t.Context(), key, func(w io.Writer) error {
		_, err := io.WriteString(w, text)
		return err
	}))
}

// texts turns documents into strings, to compare them.
func texts(docs []json.RawMessage) []string {
	got := []string{}
	for _, d := range docs {
		got = append(got, string(d))
	}
	return got
}

func TestRequestsKeepTheirOrder(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := created(t, s)
		want := []string{}
		docs, err := c.Requests(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, texts(docs))
		for i := range 12 { // 10.json comes before 2.json in a list of keys
			want = append(want, fmt.Sprintf(`{"resize":%d}`, i))
			seq, err := c.AddRequest(t.Context(), id, json.RawMessage(want[i]))
			require.NoError(t, err)
			require.EqualValues(t, i+1, seq)
		}
		docs, err = c.Requests(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, texts(docs))

		putText(t, s, "jobs/"+id+"/requests/3.json", `{"resi`)
		require.NoError(t, s.Delete(t.Context(), "jobs/"+id+"/requests/5.json"))
		putText(t, s, "jobs/"+id+"/requests/007.json", `{}`)
		want[2], want[4] = "null", "null"
		docs, err = c.Requests(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, want, texts(docs), "what is lost keeps its place")

		_, err = c.AddRequest(t.Context(), "other", json.RawMessage(`{}`))
		requireKind(t, fault.NotFound, err)
		_, err = c.AddRequest(t.Context(), id, json.RawMessage(`{`))
		requireKind(t, fault.Invalid, err)
		_, err = c.AddRequest(t.Context(), id, json.RawMessage(`"`+strings.Repeat("x", 1<<20)+`"`))
		requireKind(t, fault.Invalid, err)
		_, err = c.AddRequest(t.Context(), "a/b", json.RawMessage(`{}`))
		requireKind(t, fault.Invalid, err)
		_, err = c.Requests(t.Context(), "..")
		requireKind(t, fault.Invalid, err)
	})
}

// Requests of four processes at once: each has a number of its own, none is
// lost, and those of one process stay in its order.
func TestFourProcessesAddRequests(t *testing.T) {
	const each = 25
	dir := t.TempDir()
	c := openStore(t, dir)
	require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{}`)))
	askers := make([]*process, 4)
	for i := range askers {
		askers[i] = start(t, dir, nil)
		for n := range each {
			askers[i].tell("request %s %d-%d", id, i, n)
		}
	}
	seqs := map[string]string{}
	for i, p := range askers {
		for n := range each {
			answer, ok := p.answer()
			require.True(t, ok)
			require.Regexp(t, "^ok", answer)
			require.NotContains(t, seqs, answer)
			seqs[answer] = fmt.Sprintf(`"%d-%d"`, i, n)
		}
		p.stop()
	}
	docs, err := c.Requests(t.Context(), id)
	require.NoError(t, err)
	require.Len(t, docs, len(askers)*each)
	next := make([]int, len(askers))
	for at, doc := range docs {
		require.Equal(t, seqs[fmt.Sprint("ok ", at+1)], string(doc))
		var asker, n int
		_, err := fmt.Sscanf(string(doc), `"%d-%d"`, &asker, &n)
		require.NoError(t, err)
		require.Equal(t, next[asker], n, "asker %d", asker)
		next[asker]++
	}
}

func events(t *testing.T, c *job.Catalog, incarnation uint64) (lines []string, damage []string) {
	t.Helper()
	for line, err := range c.Events(t.Context(), id, incarnation) {
		if err != nil {
			requireKind(t, fault.Corrupt, err)
			damage = append(damage, err.Error())
			continue
		}
		lines = append(lines, string(line))
	}
	return lines, damage
}

func TestEventsComeInOrder(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := created(t, s)
		lines, damage := events(t, c, 1)
		require.Empty(t, lines)
		require.Empty(t, damage)
		want := []string{}
		for k := range 11 {
			want = append(want, fmt.Sprintf(`{"seq":%d}`, 2*k), fmt.Sprintf(`{"seq":%d}`, 2*k+1))
			require.NoError(t, c.PutEvents(t.Context(), id, 1, uint64(k), []byte(want[2*k]+"\n")))
			require.NoError(t, c.PutEvents(t.Context(), id, 1, uint64(k), []byte(want[2*k]+"\n"+want[2*k+1]+"\n")))
		}
		require.NoError(t, c.PutEvents(t.Context(), id, 0, 0, []byte(`{"queued":true}`+"\n")))
		require.NoError(t, c.PutEvents(t.Context(), id, 3, 0, nil))
		lines, damage = events(t, c, 1)
		require.Equal(t, want, lines)
		require.Empty(t, damage)
		for range c.Events(t.Context(), id, 1) {
			break // in the middle
		}
		lines, _ = events(t, c, 0)
		require.Equal(t, []string{`{"queued":true}`}, lines)
		numbers, err := c.Incarnations(t.Context(), id)
		require.NoError(t, err)
		require.Equal(t, []uint64{0, 1, 3}, numbers)

		claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
		require.NoError(t, err)
		require.EqualValues(t, 1, claim.Incarnation(), "events are no claim")
		require.NoError(t, claim.Release())
		claim = claimed(t, c)
		require.NoError(t, save(t.Context(), claim, 1))
		require.NoError(t, save(t.Context(), claim, 2))
		lines, _ = events(t, c, 1)
		require.Equal(t, want, lines, "events outlive the states of their incarnation")

		requireKind(t, fault.Invalid, c.PutEvents(t.Context(), id, 1, 0, []byte(`{}`)))
		requireKind(t, fault.Invalid, c.PutEvents(t.Context(), "a/b", 1, 0, nil))
		requireKind(t, fault.Invalid, c.PutEvents(t.Context(), id, 1, 0, make([]byte, 64<<20+1)))
		_, err = c.Incarnations(t.Context(), "a/b")
		requireKind(t, fault.Invalid, err)
		for _, err := range c.Events(t.Context(), "a/b", 1) {
			requireKind(t, fault.Invalid, err)
		}
	})
}

func TestDamagedEvents(t *testing.T) {
	for name, try := range map[string]struct {
		segment string
		lines   []string
		damaged int
	}{
		"a last line without its end":      {"1\n2\n3", []string{"1", "2", "9"}, 0},
		"a last line that is cut":          {"1\n2\n{\"a\"", []string{"1", "2", "9"}, 0},
		"a last line that is damaged":      {"1\n2\n\x00\x00\n", []string{"1", "2", "9"}, 0},
		"nothing but a damaged line":       {"\x00", []string{"9"}, 0},
		"an empty segment":                 {"", []string{"9"}, 0},
		"a line in the middle":             {"1\n{\n3\n", []string{"1", "3", "9"}, 1},
		"an empty line in the middle":      {"1\n\n3\n", []string{"1", "3", "9"}, 1},
		"two, and the last":                {"{\n{\n3\n{\n", []string{"3", "9"}, 2},
		"a segment that is not whole JSON": {"{\n1", nil, 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := store.NewMem()
			defer s.Close()
			c := created(t, s)
			putText(t, s, "jobs/"+id+"/incarnations/1/events-0.jsonl", try.segment)
			if try.lines != nil {
				putText(t, s, "jobs/"+id+"/incarnations/1/events-1.jsonl", "9\n")
			}
			lines, damage := events(t, c, 1)
			require.Equal(t, try.lines, lines)
			require.Len(t, damage, try.damaged)
			for _, d := range damage {
				require.Contains(t, d, "jobs/"+id+"/incarnations/1/events-0.jsonl is damaged: line ")
			}
		})
	}
}

// Peek does not care for tensors, but for documents.
func TestPeekLooksAtTheDocumentAlone(t *testing.T) {
	s := openFile(t, t.TempDir())
	c := created(t, s)
	state, err := c.Peek(t.Context(), id)
	require.NoError(t, err)
	require.Nil(t, state)
	claim := claimed(t, c)
	for v := 1; v <= 3; v++ {
		require.NoError(t, save(t.Context(), claim, v))
	}
	remove := func(name string) {
		path, _ := s.Path("jobs/" + id + "/incarnations/1/" + name)
		require.NoError(t, os.Truncate(path, 1))
	}
	remove("model-3.safetensors")
	state, err = c.Peek(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 3, version(state))
	remove("state.json")
	state, err = c.Peek(t.Context(), id)
	require.NoError(t, err)
	require.Equal(t, 2, version(state))
	remove("previous.json")
	_, err = c.Peek(t.Context(), id)
	requireKind(t, fault.Corrupt, err)
	_, err = c.Peek(t.Context(), "a/b")
	requireKind(t, fault.Invalid, err)
}

func TestADeletedJobIsGone(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := created(t, s)
		require.NoError(t, c.Create(t.Context(), id+"x", json.RawMessage(`{}`)), "the start of another id")
		claim := claimed(t, c)
		require.NoError(t, save(t.Context(), claim, 1))
		_, err := c.AddRequest(t.Context(), id, json.RawMessage(`{}`))
		require.NoError(t, err)
		require.NoError(t, c.PutEvents(t.Context(), id, 1, 0, []byte("{}\n")))
		require.NoError(t, claim.Release())
		require.NoError(t, c.Delete(t.Context(), id))
		require.NoError(t, c.Delete(t.Context(), id), "a repeat does nothing")
		ids, err := c.IDs(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{id + "x"}, ids)
		_, err = c.Task(t.Context(), id)
		requireKind(t, fault.NotFound, err)
		requireKind(t, fault.Invalid, c.Delete(t.Context(), ""))
		require.NoError(t, c.Create(t.Context(), id, json.RawMessage(`{}`)), "nothing is left")
	})
}

// A deletion that stops anywhere leaves no job, and nothing that could be taken
// for one: neither its claims nor its states.
func TestAHalfDeletedJobIsNoJob(t *testing.T) {
	for at := 1; ; at++ {
		mem := store.NewMem()
		c := created(t, mem)
		for range 2 {
			claim, _, err := c.Claim(t.Context(), id, me, job.Sighting{})
			require.NoError(t, err)
			require.NoError(t, save(t.Context(), claim, 1))
			require.NoError(t, claim.Release())
		}
		_, err := c.AddRequest(t.Context(), id, json.RawMessage(`{}`))
		require.NoError(t, err)
		calls := 0
		broken := job.New(&meddler{Store: mem, meddle: func() (before, after error) {
			if calls++; calls == at {
				return nil, fault.New("test", fault.Unavailable, "the store is away")
			}
			return nil, nil
		}})
		err = broken.Delete(t.Context(), id)
		if err == nil {
			require.Greater(t, at, 8)
			require.NoError(t, mem.Close())
			return
		}
		requireKind(t, fault.Unavailable, err)
		_, err = c.Task(t.Context(), id)
		requireKind(t, fault.NotFound, err)
		_, _, err = c.Claim(t.Context(), id, me, job.Sighting{})
		requireKind(t, fault.NotFound, err)
		_, err = c.AddRequest(t.Context(), id, json.RawMessage(`{}`))
		requireKind(t, fault.NotFound, err)
		if len(keys(t, mem, id)) > 0 {
			err = c.Create(t.Context(), id, json.RawMessage(`{}`))
			requireKind(t, fault.Conflict, err)
			require.ErrorContains(t, err, "was deleted, and some of it is left")
		}
		if state, err := c.Load(t.Context(), id); err == nil && state != nil {
			require.Equal(t, 1, version(state), "no state without its files")
		} else if err != nil {
			requireKind(t, fault.Corrupt, err)
		}
		require.NoError(t, c.Delete(t.Context(), id))
		require.Empty(t, keys(t, mem, id))
		require.NoError(t, mem.Close())
	}
}

func TestTheFirstSubmissionOfAKeyNamesTheJob(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		c := job.New(s)
		winner, first, err := c.Submission(t.Context(), "../key of a client", "a")
		require.NoError(t, err)
		require.True(t, first)
		require.Equal(t, "a", winner)
		for _, id := range []string{"a", "b"} {
			winner, first, err = c.Submission(t.Context(), "../key of a client", id)
			require.NoError(t, err)
			require.False(t, first)
			require.Equal(t, "a", winner)
		}
		_, first, err = c.Submission(t.Context(), "another", "b")
		require.NoError(t, err)
		require.True(t, first)
		_, _, err = c.Submission(t.Context(), "", "b")
		requireKind(t, fault.Invalid, err)
		_, _, err = c.Submission(t.Context(), "key", "a/b")
		requireKind(t, fault.Invalid, err)
		for _, damaged := range []string{"", "a", "../a\n"} {
			for o, err := range s.List(t.Context(), "submissions/") {
				require.NoError(t, err)
				putText(t, s, o.Key, damaged)
			}
			_, _, err = c.Submission(t.Context(), "another", "c")
			requireKind(t, fault.Corrupt, err)
			require.ErrorContains(t, err, "submit with another key")
		}
	})
}

func TestOfManySubmissionsOneIsFirst(t *testing.T) {
	stores(t, func(t *testing.T, s store.Store) {
		const n = 16
		var winners [n]string
		var firsts [n]bool
		var wg sync.WaitGroup
		for i := range n {
			c := job.New(s)
			wg.Go(func() { winners[i], firsts[i], _ = c.Submission(t.Context(), "key", fmt.Sprintf("j%d", i)) })
		}
		wg.Wait()
		count := 0
		for i := range n {
			require.Equal(t, winners[0], winners[i])
			if firsts[i] {
				count++
				require.Equal(t, fmt.Sprintf("j%d", i), winners[i])
			}
		}
		require.Equal(t, 1, count)
	})
}
