package probe

import (
	"context"
	"errors"
	"fmt"
	"io"

	"glovebox/system/worker/internal/launcher"
)

// Through carries out one attempt by the launcher that serves at socket, with what
// the user of this process may do there. It makes the attempt as the worker does:
// acquire, input, run, result, release.
func Through(ctx context.Context, socket string, input []byte) (Report, error) {
	return through(ctx, launcher.NewClient(socket), input)
}

func through(ctx context.Context, client *launcher.Client, input []byte) (report Report, err error) {
	s, err := client.Acquire(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, s.Release(ctx)) }()
	if _, err := s.Input.Write(input); err != nil {
		return report, fmt.Errorf("write the input: %w", err)
	}
	if report.Verdict, err = s.Run(ctx); err != nil {
		return report, err
	}
	report.Result, err = io.ReadAll(io.LimitReader(s.Result, maxReport))
	return report, err
}
