//go:build linux

package command

import (
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"time"

	"github.com/spf13/cobra"

	"hortus.dev/hortus/local/cloud"
)

var faultColumns = []column[cloud.Fault]{
	{title: "NAME", value: func(f cloud.Fault) string { return f.Name }},
	{title: "TYPE", value: func(f cloud.Fault) string { return string(f.Type) }},
	{title: "OPERATION", value: func(f cloud.Fault) string { return f.Operation }},
	{title: "TARGET", value: func(f cloud.Fault) string { return f.Target }},
	{title: "STRUCK", value: func(f cloud.Fault) string { return of(f.Struck, f.Count) }},
	{title: "UNTIL", value: func(f cloud.Fault) string {
		if f.Until.IsZero() {
			return ""
		}
		return f.Until.Format(time.TimeOnly)
	}},
	{title: "ACCOUNT", value: func(f cloud.Fault) string { return f.Account }, wide: true},
}

// newFaultsCommand returns `faults`, which makes calls of the cloud fail on demand.
func (c *client) newFaultsCommand() *cobra.Command {
	command := &cobra.Command{Use: "faults", Short: "faults on demand", Aliases: []string{"fault"}}
	list := &cobra.Command{
		Use: "list", Short: "List faults", Aliases: []string{"ls"}, Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			faults, err := api.ListFaults(command.Context())
			if err != nil {
				return err
			}
			return printItems(command.OutOrStdout(), c.output, faults, faultColumns)
		},
	}
	c.addOutputFlag(list)
	var f cloud.Fault
	var duration, delay time.Duration
	set := &cobra.Command{
		Use:   "set TYPE OPERATION",
		Short: "Make an operation fail",
		Long: `Make an operation fail. TYPE is unauthorized, quota, rate-limit, depleted, dependency, busy, slow, lost
or building. OPERATION is the name of an API operation such as CreateInstance, or * for all; for lost it may be
Instance, which takes the hardware of the target instance (or of all) away while the fault lasts. For building it is
PrepareImage, which then reports that images are being built.`,
		Example: `  hortus cloud faults set depleted CreateInstance --duration 5m --target local-a
  hortus cloud faults set rate-limit '*' --count 3
  hortus cloud faults set lost Instance --target i-0123456789`,
		Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			f.Type, f.Operation = cloud.FaultType(args[0]), args[1]
			f.DurationSeconds, f.DelaySeconds = int(duration.Seconds()), delay.Seconds()
			made, err := api.SetFault(command.Context(), f)
			if err != nil {
				return err
			}
			return printOne(command.OutOrStdout(), c.output, *made, faultColumns)
		},
	}
	c.addOutputFlag(set)
	set.Flags().StringVar(&f.Name, "name", "", "name of the fault; default <type>-<operation>")
	set.Flags().StringVar(&f.Account, "account", "", "only for calls of this account")
	set.Flags().StringVar(&f.Target, "target", "",
		"only for this object, zone, machine type, image, cluster, bucket or object key")
	set.Flags().IntVar(&f.Count, "count", 0, "number of calls that fail; 0 means no limit")
	set.Flags().DurationVar(&duration, "duration", 0, "duration; 0 means until it is deleted")
	set.Flags().DurationVar(&delay, "delay", 0, "delay of slow; default 5s")
	remove := &cobra.Command{
		Use: "delete NAME...", Short: "End faults", Args: cobra.MinimumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			var errs []error
			for _, name := range args {
				errs = append(errs, api.DeleteFault(command.Context(), name))
			}
			return errors.Join(errs...)
		},
	}
	command.AddCommand(list, set, remove)
	return command
}

var bucketColumns = []column[cloud.Bucket]{
	{title: "NAME", value: func(b cloud.Bucket) string { return b.Name }},
	{title: "ACCOUNT", value: func(b cloud.Bucket) string { return b.Account }},
	{title: "AGE", value: func(b cloud.Bucket) string { return age(b.CreatedAt) }},
}

var objectColumns = []column[cloud.Object]{
	{title: "KEY", value: func(o cloud.Object) string { return o.Key }},
	{title: "SIZE", value: func(o cloud.Object) string { return strconv.FormatInt(o.SizeBytes, 10) }},
	{title: "AGE", value: func(o cloud.Object) string { return age(o.UpdatedAt) }},
	{title: "SHA256", value: func(o cloud.Object) string { return o.SHA256 }, wide: true},
}

// newBucketsCommand returns `buckets`: buckets and the objects in them.
func (c *client) newBucketsCommand() *cobra.Command {
	command := &cobra.Command{Use: "buckets", Short: "buckets and their objects", Aliases: []string{"bucket"}}
	var prefix string
	list := &cobra.Command{
		Use: "list [BUCKET]", Short: "List buckets, or the objects of one", Aliases: []string{"ls"},
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			if len(args) == 1 {
				objects, err := api.ListObjects(command.Context(), args[0], prefix)
				if err != nil {
					return err
				}
				return printItems(command.OutOrStdout(), c.output, objects, objectColumns)
			}
			buckets, err := api.ListBuckets(command.Context())
			if err != nil {
				return err
			}
			return printItems(command.OutOrStdout(), c.output, buckets, bucketColumns)
		},
	}
	c.addOutputFlag(list)
	list.Flags().StringVar(&prefix, "prefix", "", "only objects whose keys have this prefix")
	get := &cobra.Command{
		Use: "get BUCKET KEY", Short: "Write the content of an object to standard output", Args: cobra.ExactArgs(2),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			content, err := api.GetObject(command.Context(), args[0], args[1])
			if err != nil {
				return err
			}
			return copyTo(command.OutOrStdout(), content)
		},
	}
	put := &cobra.Command{
		Use: "put BUCKET KEY FILE", Short: "Store a file, - for standard input, as an object", Args: cobra.ExactArgs(3),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			content := io.NopCloser(command.InOrStdin())
			if args[2] != "-" {
				if content, err = os.Open(args[2]); err != nil {
					return fmt.Errorf("open content: %w", err)
				}
			}
			defer content.Close()
			o, err := api.PutObject(command.Context(), args[0], args[1], content)
			if err != nil {
				return err
			}
			return printOne(command.OutOrStdout(), "table", *o, objectColumns)
		},
	}
	var force bool
	remove := &cobra.Command{
		Use: "delete BUCKET [KEY]", Short: "Delete a bucket, or one object of it", Args: cobra.RangeArgs(1, 2),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			if len(args) == 2 {
				return api.DeleteObject(command.Context(), args[0], args[1])
			}
			return api.DeleteBucket(command.Context(), args[0], force)
		},
	}
	remove.Flags().BoolVar(&force, "force", false, "delete the objects in the bucket too")
	create := &cobra.Command{
		Use: "create BUCKET", Short: "Make a bucket", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			b, err := api.CreateBucket(command.Context(), args[0])
			if err != nil {
				return err
			}
			return printOne(command.OutOrStdout(), "table", *b, bucketColumns)
		},
	}
	command.AddCommand(list, get, put, create, remove)
	return command
}

func (c *client) newAboutCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "about", Short: "Describe the cloud and the caller", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			about, err := api.About(command.Context())
			if err != nil {
				return err
			}
			return printValue(command.OutOrStdout(), "yaml", about)
		},
	}
	return command
}

func (c *client) newEventsCommand() *cobra.Command {
	return &cobra.Command{
		Use: "events", Short: "Print changes as they happen", Args: cobra.NoArgs,
		RunE: func(command *cobra.Command, _ []string) error {
			api, err := c.connect()
			if err != nil {
				return err
			}
			return api.Watch(command.Context(), func(l *cloud.EventList) {
				for _, e := range l.Events {
					fmt.Fprintf(command.OutOrStdout(), "%d\t%s\t%s\t%s\t%s\t%s\n", e.Revision, e.Kind, e.Type, e.ID, e.Name, e.State)
				}
			})
		},
	}
}
