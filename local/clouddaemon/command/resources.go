//go:build linux

package command

import (
	"cmp"
	"context"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/local/cloud"
)

// resource describes the commands of one kind.
type resource[T any] struct {
	use, short string
	aliases    []string
	columns    []column[T]
	list       func(context.Context, *cloud.Client, cloud.Filter) ([]T, error)
	get        func(context.Context, *cloud.Client, string) (*T, error) // Nil if the kind has no get.
	remove     func(context.Context, *cloud.Client, string) error       // Nil if the kind has no delete.
	id         func(T) (id, name string)
	filters    bool // Whether lists take --name and --tag.
}

// newCommand returns the command of a kind with list, get and delete below it.
func newCommand[T any](c *client, r resource[T]) *cobra.Command {
	command := &cobra.Command{Use: r.use, Short: r.short, Aliases: r.aliases}
	var filter cloud.Filter
	var tags map[string]string
	list := &cobra.Command{
		Use: "list", Short: "List " + r.short, Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			filter.Tags = tags
			items, err := r.list(command.Context(), api, filter)
			if err != nil {
				return err
			}
			return printItems(command.OutOrStdout(), c.output, items, r.columns)
		},
	}
	c.addOutputFlag(list)
	if r.filters {
		list.Flags().StringVar(&filter.Name, "name", "", "only those of this name")
		list.Flags().StringToStringVar(&tags, "tag", nil, "only those with these tags, key=value")
	}
	command.AddCommand(list)
	if r.get != nil {
		command.AddCommand(newGetCommand(c, r))
	}
	if r.remove != nil {
		command.AddCommand(newDeleteCommand(c, r))
	}
	return command
}

func newGetCommand[T any](c *client, r resource[T]) *cobra.Command {
	command := &cobra.Command{
		Use: "get ID|NAME", Short: "Show one of the " + r.short, Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			id, err := r.resolve(command.Context(), api, args[0])
			if err != nil {
				return err
			}
			item, err := r.get(command.Context(), api, id)
			if err != nil {
				return err
			}
			return printOne(command.OutOrStdout(), c.output, *item, r.columns)
		},
	}
	c.addOutputFlag(command)
	return command
}

func newDeleteCommand[T any](c *client, r resource[T]) *cobra.Command {
	return &cobra.Command{
		Use: "delete ID|NAME...", Short: "Delete some of the " + r.short, Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			for _, a := range args {
				id, err := r.resolve(command.Context(), api, a)
				if err != nil {
					return err
				}
				if err := r.remove(command.Context(), api, id); err != nil {
					return err
				}
				fmt.Fprintf(command.OutOrStdout(), "%s deleted\n", id)
			}
			return nil
		},
	}
}

// resolve returns the ID of the object with the given ID or name.
func (r resource[T]) resolve(ctx context.Context, api *cloud.Client, idOrName string) (string, error) {
	items, err := r.list(ctx, api, cloud.Filter{})
	if err != nil {
		return "", err
	}
	var found []string
	for _, i := range items {
		id, name := r.id(i)
		if id == idOrName {
			return id, nil
		}
		if name == idOrName {
			found = append(found, id)
		}
	}
	switch len(found) {
	case 0:
		return "", fmt.Errorf("%s: not found: %q", r.short, idOrName)
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("%s: ambiguous name: %q (IDs: %s)", r.short, idOrName, strings.Join(found, ", "))
	}
}

func (c *client) resourceCommands() []*cobra.Command {
	instances := newCommand(c, instanceResource)
	instances.AddCommand(c.newConsoleCommand(), c.newRebootCommand(), c.newExecCommand())
	return []*cobra.Command{
		instances,
		newCommand(c, networkResource),
		newCommand(c, loadBalancerResource),
		newCommand(c, dnsResource),
		c.withAttach(newCommand(c, volumeResource)),
		c.withSetQuota(newCommand(c, quotaResource)),
		newCommand(c, machineTypeResource),
		newCommand(c, imageResource),
		c.withCreateCredentials(newCommand(c, credentialsResource)),
	}
}

var instanceResource = resource[cloud.Instance]{
	use: "instances", short: "instances", aliases: []string{"instance", "i"}, filters: true,
	columns: []column[cloud.Instance]{
		{title: "ID", value: func(i cloud.Instance) string { return i.ID }},
		{title: "NAME", value: func(i cloud.Instance) string { return i.Name }},
		{title: "STATE", value: func(i cloud.Instance) string { return string(i.State) }},
		{title: "TYPE", value: func(i cloud.Instance) string { return i.MachineType }},
		{title: "ADDRESS", value: func(i cloud.Instance) string { return i.Address }},
		{title: "NETWORK", value: func(i cloud.Instance) string { return i.NetworkID }},
		{title: "BOOTS", value: func(i cloud.Instance) string { return strconv.Itoa(i.Boots) }},
		{title: "AGE", value: func(i cloud.Instance) string { return age(i.CreatedAt) }},
		{title: "IMAGE", value: func(i cloud.Instance) string { return i.Image }, wide: true},
		{title: "ZONE", value: func(i cloud.Instance) string { return i.Zone }, wide: true},
		{title: "ACCOUNT", value: func(i cloud.Instance) string { return i.Account }, wide: true},
		{title: "TAGS", value: func(i cloud.Instance) string { return pairs(i.Tags) }, wide: true},
		{title: "MESSAGE", value: func(i cloud.Instance) string { return i.Message }, wide: true},
	},
	list: func(ctx context.Context, c *cloud.Client, f cloud.Filter) ([]cloud.Instance, error) {
		return c.ListInstances(ctx, f)
	},
	get: func(ctx context.Context, c *cloud.Client, id string) (*cloud.Instance, error) {
		return c.GetInstance(ctx, id)
	},
	remove: func(ctx context.Context, c *cloud.Client, id string) error { return c.DeleteInstance(ctx, id) },
	id:     func(i cloud.Instance) (string, string) { return i.ID, i.Name },
}

var networkResource = resource[cloud.Network]{
	use: "networks", short: "networks", aliases: []string{"network", "net"}, filters: true,
	columns: []column[cloud.Network]{
		{title: "ID", value: func(n cloud.Network) string { return n.ID }},
		{title: "NAME", value: func(n cloud.Network) string { return n.Name }},
		{title: "STATE", value: func(n cloud.Network) string { return string(n.State) }},
		{title: "CIDR", value: func(n cloud.Network) string { return n.CIDR }},
		{title: "UPLINK", value: func(n cloud.Network) string { return n.UplinkAddress }},
		{title: "AGE", value: func(n cloud.Network) string { return age(n.CreatedAt) }},
		{title: "ACCOUNT", value: func(n cloud.Network) string { return n.Account }, wide: true},
		{title: "TAGS", value: func(n cloud.Network) string { return pairs(n.Tags) }, wide: true},
		{title: "MESSAGE", value: func(n cloud.Network) string { return n.Message }, wide: true},
	},
	list: func(ctx context.Context, c *cloud.Client, f cloud.Filter) ([]cloud.Network, error) {
		return c.ListNetworks(ctx, f)
	},
	get: func(ctx context.Context, c *cloud.Client, id string) (*cloud.Network, error) {
		return c.GetNetwork(ctx, id)
	},
	remove: func(ctx context.Context, c *cloud.Client, id string) error { return c.DeleteNetwork(ctx, id) },
	id:     func(n cloud.Network) (string, string) { return n.ID, n.Name },
}

var loadBalancerResource = resource[cloud.LoadBalancer]{
	use: "load-balancers", short: "load balancers", aliases: []string{"load-balancer", "lb"}, filters: true,
	columns: []column[cloud.LoadBalancer]{
		{title: "ID", value: func(l cloud.LoadBalancer) string { return l.ID }},
		{title: "NAME", value: func(l cloud.LoadBalancer) string { return l.Name }},
		{title: "STATE", value: func(l cloud.LoadBalancer) string { return string(l.State) }},
		{title: "ADDRESS", value: func(l cloud.LoadBalancer) string { return l.Address }},
		{title: "LISTENERS", value: func(l cloud.LoadBalancer) string { return listeners(l.Listeners, false) }},
		{title: "AGE", value: func(l cloud.LoadBalancer) string { return age(l.CreatedAt) }},
		{title: "TARGETS", value: func(l cloud.LoadBalancer) string { return listeners(l.Listeners, true) }, wide: true},
		{title: "ALLOWED", value: func(l cloud.LoadBalancer) string { return strings.Join(l.AllowedCIDRs, ",") }, wide: true},
		{title: "ACCOUNT", value: func(l cloud.LoadBalancer) string { return l.Account }, wide: true},
		{title: "TAGS", value: func(l cloud.LoadBalancer) string { return pairs(l.Tags) }, wide: true},
		{title: "MESSAGE", value: func(l cloud.LoadBalancer) string { return l.Message }, wide: true},
	},
	list: func(ctx context.Context, c *cloud.Client, f cloud.Filter) ([]cloud.LoadBalancer, error) {
		return c.ListLoadBalancers(ctx, f)
	},
	get: func(ctx context.Context, c *cloud.Client, id string) (*cloud.LoadBalancer, error) {
		return c.GetLoadBalancer(ctx, id)
	},
	remove: func(ctx context.Context, c *cloud.Client, id string) error { return c.DeleteLoadBalancer(ctx, id) },
	id:     func(l cloud.LoadBalancer) (string, string) { return l.ID, l.Name },
}

var dnsResource = resource[cloud.DNSRecord]{
	use: "dns", short: "DNS records", aliases: []string{"dns-records"},
	columns: []column[cloud.DNSRecord]{
		{title: "NAME", value: func(r cloud.DNSRecord) string { return r.Name }},
		{title: "TYPE", value: func(r cloud.DNSRecord) string { return r.Type }},
		{title: "VALUES", value: func(r cloud.DNSRecord) string { return strings.Join(r.Values, ",") }},
		{title: "TTL", value: func(r cloud.DNSRecord) string { return strconv.Itoa(r.TTLSeconds) }},
		{title: "AGE", value: func(r cloud.DNSRecord) string { return age(r.UpdatedAt) }},
		{title: "ACCOUNT", value: func(r cloud.DNSRecord) string { return r.Account }, wide: true},
	},
	list: func(ctx context.Context, c *cloud.Client, f cloud.Filter) ([]cloud.DNSRecord, error) {
		return c.ListDNSRecords(ctx, f)
	},
	remove: func(ctx context.Context, c *cloud.Client, id string) error {
		name, recordType, _ := strings.Cut(id, "/")
		return c.DeleteDNSRecord(ctx, name, recordType)
	},
	id: func(r cloud.DNSRecord) (string, string) { return r.Name + "/" + r.Type, r.Name },
}

var volumeResource = resource[cloud.Volume]{
	use: "volumes", short: "volumes", aliases: []string{"volume"}, filters: true,
	columns: []column[cloud.Volume]{
		{title: "ID", value: func(v cloud.Volume) string { return v.ID }},
		{title: "NAME", value: func(v cloud.Volume) string { return v.Name }},
		{title: "STATE", value: func(v cloud.Volume) string { return string(v.State) }},
		{title: "SIZE", value: func(v cloud.Volume) string { return bytes(v.SizeBytes) }},
		{title: "ZONE", value: func(v cloud.Volume) string { return v.Zone }},
		{title: "INSTANCE", value: func(v cloud.Volume) string { return v.InstanceID }},
		{title: "AGE", value: func(v cloud.Volume) string { return age(v.CreatedAt) }},
		{title: "ACCOUNT", value: func(v cloud.Volume) string { return v.Account }, wide: true},
		{title: "TAGS", value: func(v cloud.Volume) string { return pairs(v.Tags) }, wide: true},
	},
	list: func(ctx context.Context, c *cloud.Client, f cloud.Filter) ([]cloud.Volume, error) {
		return c.ListVolumes(ctx, f)
	},
	get: func(ctx context.Context, c *cloud.Client, id string) (*cloud.Volume, error) {
		return c.GetVolume(ctx, id)
	},
	remove: func(ctx context.Context, c *cloud.Client, id string) error { return c.DeleteVolume(ctx, id) },
	id:     func(v cloud.Volume) (string, string) { return v.ID, v.Name },
}

var quotaResource = resource[cloud.Quota]{
	use: "quotas", short: "quotas", aliases: []string{"quota"},
	columns: []column[cloud.Quota]{
		{title: "ACCOUNT", value: func(q cloud.Quota) string { return q.Account }},
		{title: "INSTANCES", value: func(q cloud.Quota) string { return of(q.Used.Instances, q.Limits.Instances) }},
		{title: "CPU", value: func(q cloud.Quota) string { return of(q.Used.CPU, q.Limits.CPU) }},
		{title: "MEMORY", value: func(q cloud.Quota) string { return ofBytes(q.Used.MemoryBytes, q.Limits.MemoryBytes) }},
		{title: "LOAD BALANCERS", value: func(q cloud.Quota) string {
			return of(q.Used.LoadBalancers,
				q.Limits.LoadBalancers)
		}},
		{title: "NETWORKS", value: func(q cloud.Quota) string { return of(q.Used.Networks, q.Limits.Networks) }},
		{title: "VOLUMES", value: func(q cloud.Quota) string { return ofBytes(q.Used.VolumeBytes, q.Limits.VolumeBytes) }},
	},
	list: func(ctx context.Context, c *cloud.Client, _ cloud.Filter) ([]cloud.Quota, error) {
		return c.ListQuotas(ctx)
	},
}

var machineTypeResource = resource[cloud.MachineType]{
	use: "machine-types", short: "machine types",
	columns: []column[cloud.MachineType]{
		{title: "NAME", value: func(t cloud.MachineType) string { return t.Name }},
		{title: "CPU", value: func(t cloud.MachineType) string { return strconv.Itoa(t.CPU) }},
		{title: "MEMORY", value: func(t cloud.MachineType) string { return bytes(t.MemoryBytes) }},
		{title: "ARCHITECTURE", value: func(t cloud.MachineType) string { return t.Architecture }},
	},
	list: func(ctx context.Context, c *cloud.Client, _ cloud.Filter) ([]cloud.MachineType, error) {
		return c.ListMachineTypes(ctx)
	},
}

var imageResource = resource[cloud.MachineImage]{
	use: "images", short: "machine images", aliases: []string{"machine-images"},
	columns: []column[cloud.MachineImage]{
		{title: "NAME", value: func(i cloud.MachineImage) string { return i.Name }},
		{title: "VERSION", value: func(i cloud.MachineImage) string { return i.Version }},
		{title: "ARCHITECTURE", value: func(i cloud.MachineImage) string { return i.Architecture }},
		{title: "DIGEST", value: func(i cloud.MachineImage) string { return i.Digest }, wide: true},
	},
	list: func(ctx context.Context, c *cloud.Client, _ cloud.Filter) ([]cloud.MachineImage, error) {
		return c.ListMachineImages(ctx)
	},
}

var credentialsResource = resource[cloud.Credentials]{
	use: "credentials", short: "credentials",
	columns: []column[cloud.Credentials]{
		{title: "ACCESS KEY", value: func(c cloud.Credentials) string { return c.AccessKey }},
		{title: "ACCOUNT", value: func(c cloud.Credentials) string { return c.Account }},
		{title: "ADMIN", value: func(c cloud.Credentials) string { return strconv.FormatBool(c.Admin) }},
		{title: "BUCKET", value: func(c cloud.Credentials) string { return c.Bucket }},
		{title: "AGE", value: func(c cloud.Credentials) string { return age(c.CreatedAt) }},
	},
	list: func(ctx context.Context, c *cloud.Client, _ cloud.Filter) ([]cloud.Credentials, error) {
		return c.ListCredentials(ctx)
	},
	remove: func(ctx context.Context, c *cloud.Client, id string) error { return c.DeleteCredentials(ctx, id) },
	id:     func(c cloud.Credentials) (string, string) { return c.AccessKey, "" },
}

func (c *client) newConsoleCommand() *cobra.Command {
	var tail int64
	command := &cobra.Command{
		Use: "console ID|NAME", Short: "Show the console log of an instance", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			id, err := instanceResource.resolve(command.Context(), api, args[0])
			if err != nil {
				return err
			}
			log, err := api.ConsoleLog(command.Context(), id, tail)
			if err != nil {
				return err
			}
			_, err = command.OutOrStdout().Write(log)
			return err
		},
	}
	command.Flags().Int64Var(&tail, "tail-bytes", 0, "only the last bytes; 0 means all")
	return command
}

func (c *client) newRebootCommand() *cobra.Command {
	return &cobra.Command{
		Use: "reboot ID|NAME", Short: "Restart an instance with its disk", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			id, err := instanceResource.resolve(command.Context(), api, args[0])
			if err != nil {
				return err
			}
			return api.RebootInstance(command.Context(), id)
		},
	}
}

// withAttach adds the commands that attach and detach volumes.
func (c *client) withAttach(command *cobra.Command) *cobra.Command {
	for _, one := range []struct {
		use, short string
		call       func(*cloud.Client, context.Context, string, string) (*cloud.Volume, error)
	}{
		{"attach", "Attach a volume to an instance that exists, below " + cloud.VolumesDir, (*cloud.Client).AttachVolume},
		{"detach", "Detach a volume from an instance, even if it is in use there", (*cloud.Client).DetachVolume},
	} {
		sub := &cobra.Command{
			Use: one.use + " VOLUME INSTANCE", Short: one.short, Args: cobra.ExactArgs(2),
			RunE: func(command *cobra.Command, args []string) error {
				api, err := c.connect()
				if err != nil {
					return err
				}
				volume, err := volumeResource.resolve(command.Context(), api, args[0])
				if err != nil {
					return err
				}
				instance, err := instanceResource.resolve(command.Context(), api, args[1])
				if err != nil {
					return err
				}
				changed, err := one.call(api, command.Context(), volume, instance)
				if err != nil {
					return err
				}
				return printOne(command.OutOrStdout(), c.output, *changed, volumeResource.columns)
			},
		}
		c.addOutputFlag(sub)
		command.AddCommand(sub)
	}
	return command
}

func (c *client) withSetQuota(command *cobra.Command) *cobra.Command {
	var limits cloud.Limits
	var memoryGiB, volumeGiB int64
	set := &cobra.Command{
		Use: "set ACCOUNT", Short: "Set the limits of an account; 0 means no limit", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			limits.MemoryBytes, limits.VolumeBytes = memoryGiB<<30, volumeGiB<<30
			quota, err := api.SetQuota(command.Context(), args[0], limits)
			if err != nil {
				return err
			}
			return printOne(command.OutOrStdout(), c.output, *quota, quotaResource.columns)
		},
	}
	c.addOutputFlag(set)
	set.Flags().IntVar(&limits.Instances, "instances", 0, "number of instances")
	set.Flags().IntVar(&limits.CPU, "cpu", 0, "sum of cores")
	set.Flags().Int64Var(&memoryGiB, "memory-gib", 0, "sum of memory, in GiB")
	set.Flags().IntVar(&limits.LoadBalancers, "load-balancers", 0, "number of load balancers")
	set.Flags().IntVar(&limits.Networks, "networks", 0, "number of networks")
	set.Flags().Int64Var(&volumeGiB, "volume-gib", 0, "sum of volume sizes, in GiB")
	command.AddCommand(set)
	return command
}

func (c *client) withCreateCredentials(command *cobra.Command) *cobra.Command {
	var admin bool
	create := &cobra.Command{
		Use: "create ACCOUNT", Short: "Make credentials for an account and print them once", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			made, err := api.CreateCredentials(command.Context(), args[0], admin)
			if err != nil {
				return err
			}
			return printValue(command.OutOrStdout(), "json", made)
		},
	}
	create.Flags().BoolVar(&admin, "admin", false, "may see everything and manage the cloud")
	command.AddCommand(create)
	return command
}

// The rest turns values into cells.

func age(t time.Time) string {
	if t.IsZero() {
		return ""
	}
	d := time.Since(t).Round(time.Second)
	switch {
	case d < 2*time.Minute:
		return fmt.Sprintf("%ds", int(d.Seconds()))
	case d < 2*time.Hour:
		return fmt.Sprintf("%dm", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%dh", int(d.Hours()))
	default:
		return fmt.Sprintf("%dd", int(d.Hours()/24))
	}
}

func pairs(m map[string]string) string {
	var out []string
	for _, k := range slices.Sorted(maps.Keys(m)) {
		out = append(out, k+"="+m[k])
	}
	return strings.Join(out, ",")
}

func listeners(all []cloud.Listener, withTargets bool) string {
	all = slices.Clone(all)
	slices.SortFunc(all, func(a, b cloud.Listener) int { return a.Port - b.Port })
	var out []string
	for _, l := range all {
		cell := strconv.Itoa(l.Port)
		if withTargets {
			var targets []string
			for _, t := range l.Targets {
				targets = append(targets, fmt.Sprintf("%s:%d", cmp.Or(t.InstanceID, t.Host), t.Port))
			}
			cell += "->" + strings.Join(targets, "+")
		}
		out = append(out, cell)
	}
	return strings.Join(out, ",")
}

func bytes(n int64) string {
	for _, u := range []struct {
		name string
		size int64
	}{{"Gi", 1 << 30}, {"Mi", 1 << 20}, {"Ki", 1 << 10}} {
		if n >= u.size {
			return strconv.FormatFloat(float64(n)/float64(u.size), 'f', -1, 32) + u.name
		}
	}
	return strconv.FormatInt(n, 10)
}

func of(used, limit int) string {
	if limit == 0 {
		return strconv.Itoa(used)
	}
	return fmt.Sprintf("%d/%d", used, limit)
}

func ofBytes(used, limit int64) string {
	if limit == 0 {
		return bytes(used)
	}
	return bytes(used) + "/" + bytes(limit)
}

// copyTo writes content to w and closes it.
func copyTo(w io.Writer, content io.ReadCloser) error {
	defer content.Close()
	_, err := io.Copy(w, content)
	return err
}
