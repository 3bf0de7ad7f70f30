package cli

import (
	"flag"
	"io"
	"strconv"

	"github.com/spf13/cobra"
	"k8s.io/klog/v2"
)

// Logging gives commands the flag -v of kubectl. Without it the client libraries log nothing: the error of the command
// has the information.
func Logging(commands ...*cobra.Command) {
	for _, cmd := range commands {
		Logging(cmd.Commands()...)
		if !cmd.Runnable() || cmd.DisableFlagParsing || cmd.Flags().ShorthandLookup("v") != nil {
			continue
		}
		level := cmd.Flags().Int32P("v", "v", 0, "Log level of the client libraries: 6 shows the requests, 8 their contents.")
		before := cmd.PreRunE
		cmd.PreRunE = func(cmd *cobra.Command, args []string) error {
			logUpTo(*level, cmd.ErrOrStderr())
			if before != nil {
				return before(cmd, args)
			}
			return nil
		}
	}
}

// logUpTo has klog write to out, and nowhere else, what is of this level.
func logUpTo(level int32, out io.Writer) {
	var flags flag.FlagSet
	klog.InitFlags(&flags)
	for name, value := range map[string]string{
		"logtostderr": "false", "alsologtostderr": "false", "stderrthreshold": "FATAL", "v": strconv.Itoa(int(max(level, 0))),
	} {
		_ = flags.Set(name, value) // klog knows these
	}
	if level <= 0 {
		out = io.Discard
	}
	klog.SetOutput(out)
}
