package main

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/troupe-ml/troupe/api"
	"github.com/troupe-ml/troupe/api/access"
	"github.com/troupe-ml/troupe/api/client"
	"github.com/troupe-ml/troupe/internal/fault"
)

// newClusterCommand returns the verb for the nodes of a server and who may use
// them.
func newClusterCommand(s *session) *cobra.Command {
	return newGroup("cluster", "List the nodes of a server, create and revoke tokens", "  troupe cluster members\n  troupe cluster token create --name ci --role submit",
		newClusterMembersCommand(s),
		newGroup("token", "Create and revoke the tokens of a server", "  troupe cluster token create --name ci --role submit", newTokenCreateCommand(s), newTokenRevokeCommand(s)))
}

// newClusterMembersCommand returns the verb that lists nodes.
func newClusterMembersCommand(s *session) *cobra.Command {
	server, output := &remoteFlags{}, "table"
	cmd := &cobra.Command{
		Use:         "members",
		Short:       "List the nodes of a server",
		Example:     "  troupe cluster members\n  troupe cluster members -o json",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				nodes, err := c.Cluster(ctx)
				if err != nil {
					return err
				}
				return printList(s, output, nodes, "no nodes", nodeTable)
			})
		},
	}
	registerTable(cmd.Flags(), &output)
	server.register(cmd.Flags())
	return cmd
}

func nodeTable(nodes []api.Node) *table {
	t := newTable("NAME", "ADDRESS", "SLOTS", "BUSY", "ROLES", "LABELS", "VERSION", "SEEN")
	for _, n := range nodes {
		var labels []string
		for name, value := range n.Labels {
			labels = append(labels, name+"="+value)
		}
		slices.Sort(labels)
		t.row(n.Name, n.Address, n.Slots, n.Busy, strings.Join(n.Roles, ","), strings.Join(labels, ","), n.Version, seenAgo(n))
	}
	t.below = storeLine(nodes)
	return t
}

// storeLine says of several nodes which of them have the store, where not all have.
func storeLine(nodes []api.Node) string {
	var have []string
	for _, n := range nodes {
		if n.SharesStore {
			have = append(have, n.Name)
		}
	}
	switch len(have) {
	case 0, len(nodes):
		return ""
	case 1:
		return "store: only on " + have[0]
	}
	return "store: on " + strings.Join(have, ", ")
}

// seenAgo says when a node last answered.
func seenAgo(n api.Node) string {
	seen, err := time.Parse(time.RFC3339, n.LastSeen)
	if err != nil {
		return ""
	}
	ago := max(0, time.Since(seen).Truncate(time.Second)).String() + " ago"
	if !n.Alive {
		ago += ", does not answer"
	}
	if n.Leaving {
		ago += ", leaves"
	}
	return ago
}

// newTokenCreateCommand returns the verb that lets somebody in.
func newTokenCreateCommand(s *session) *cobra.Command {
	server, name, role, output := &remoteFlags{}, "", access.Submit.String(), "text"
	var roles []string
	for _, r := range access.Roles() {
		roles = append(roles, r.String())
	}
	roles = append(roles, api.JoinRole)
	cmd := &cobra.Command{
		Use:   "create --name NAME",
		Short: "Create a token for a server",
		Long: `Create a token for a server, and print it: it is not to be had again. read looks
at everything; submit also trains, stops and deletes; admin also prunes and
looks after tokens. Who has the token goes on with it in a file (--token-file)
or in TROUPE_TOKEN. join does nothing of that: with it nodes join (troupe up
--join), for a day. It takes the token of an admin.`,
		Example:     "  troupe cluster token create --name ci --role submit >ci.token\n  troupe cluster token create --name rack2 --role join >join.token",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if name == "" {
				return fault.New("cluster.flags", fault.Invalid, "no name given: say by which the token can be revoked, with --name")
			}
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				token, err := c.CreateToken(ctx, name, role)
				switch {
				case err != nil:
					return err
				case output == "json":
					return s.printJSON(api.Token{Name: name, Role: role, Token: token})
				}
				_, err = fmt.Fprintln(s.Out, strings.TrimSpace(token))
				return err
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the token, by which it is revoked")
	cmd.Flags().Var(oneOf(&role, roles), "role", "what it allows")
	server.register(cmd.Flags())
	registerOutput(cmd.Flags(), &output)
	return cmd
}

// newTokenRevokeCommand returns the verb that makes a token worthless.
func newTokenRevokeCommand(s *session) *cobra.Command {
	server, name := &remoteFlags{}, ""
	cmd := &cobra.Command{
		Use:         "revoke --name NAME",
		Short:       "Make a token worthless",
		Example:     "  troupe cluster token revoke --name ci",
		Annotations: exits(exitDone, exitBug, exitInvalid, exitNotFound, exitConflict, exitUnavailable, exitKilled),
		Args:        noArguments,
		RunE: func(*cobra.Command, []string) error {
			if name == "" {
				return fault.New("cluster.flags", fault.Invalid, "no token given: say which with --name")
			}
			return s.remote(server, func(ctx context.Context, c *client.Client) error {
				if err := c.RevokeToken(ctx, name); err != nil {
					return err
				}
				fmt.Fprintf(s.screen, "token %s revoked\n", name)
				return nil
			})
		},
	}
	cmd.Flags().StringVar(&name, "name", "", "name of the token")
	server.register(cmd.Flags())
	return cmd
}
