// Command hyperkube is the five programs of one Kubernetes version in one file: it behaves as the program its own file
// name (usually a link) or, failing that, its first argument names. One file is half the size of five.
package main

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	_ "time/tzdata" // CronJob schedules may name a time zone, and the images have no zone files.

	"github.com/spf13/cobra"
	"k8s.io/component-base/cli"
	_ "k8s.io/component-base/logs/json/register"
	_ "k8s.io/component-base/metrics/prometheus/clientgo"
	_ "k8s.io/component-base/metrics/prometheus/version"
	apiserver "k8s.io/kubernetes/cmd/kube-apiserver/app"
	controllermanager "k8s.io/kubernetes/cmd/kube-controller-manager/app"
	proxy "k8s.io/kubernetes/cmd/kube-proxy/app"
	scheduler "k8s.io/kubernetes/cmd/kube-scheduler/app"
	kubelet "k8s.io/kubernetes/cmd/kubelet/app"
)

// programs are built on demand, because each constructor registers flags and feature gates of its own.
var programs = map[string]func() *cobra.Command{
	"kube-apiserver":          apiserver.NewAPIServerCommand,
	"kube-controller-manager": controllermanager.NewControllerManagerCommand,
	"kube-scheduler":          func() *cobra.Command { return scheduler.NewSchedulerCommand() },
	"kube-proxy":              proxy.NewProxyCommand,
	"kubelet":                 func() *cobra.Command { return kubelet.NewKubeletCommand(context.Background()) },
}

func main() {
	newCommand := programs[filepath.Base(os.Args[0])]
	if newCommand == nil && len(os.Args) > 1 {
		if newCommand = programs[os.Args[1]]; newCommand != nil {
			os.Args = os.Args[1:] // The components read os.Args themselves.
		}
	}
	if newCommand == nil {
		fmt.Fprintln(os.Stderr,
			"usage: hyperkube kube-apiserver|kube-controller-manager|kube-scheduler|kube-proxy|kubelet [flags]")
		os.Exit(2)
	}
	os.Exit(cli.Run(newCommand()))
}
