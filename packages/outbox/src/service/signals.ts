// Beside the command the only place that touches the process.

/** Resolves to the first of these signals. `stop` removes the listeners: the next signal then ends the process, as signals do by default. */
export function waitForSignal(signals: readonly NodeJS.Signals[]): { readonly received: Promise<NodeJS.Signals>; stop(): void } {
  let onSignal: (signal: NodeJS.Signals) => void = () => {}
  const received = new Promise<NodeJS.Signals>((resolve) => {
    onSignal = resolve
  })
  for (const signal of signals) process.once(signal, onSignal)
  return {
    received,
    stop() {
      for (const signal of signals) process.removeListener(signal, onSignal)
    },
  }
}
