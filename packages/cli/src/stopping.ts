import { once } from 'node:events'
import { abortable } from '@ackord/core/internal'

/** Resolves when the signal is aborted. Keeps nothing alive. */
export async function aborted(signal: AbortSignal): Promise<void> {
  if (!signal.aborted) await once(signal, 'abort')
}

/** What is being opened, or the signal's reason if that comes first; what is opened too late is closed again. */
export async function unlessAborted<T extends AsyncDisposable>(opening: Promise<T>, signal: AbortSignal): Promise<T> {
  try {
    return await abortable(opening, signal)
  } catch (error) {
    if (signal.aborted) void opening.then((late) => late[Symbol.asyncDispose]()).then(undefined, () => {})
    throw error
  }
}
