import type { Runtime } from '@ackord/core'
import { abortable, linkedController } from '@ackord/core/internal'
import type { AwsBatchFailure, AwsBatchResult, AwsRequestOptions } from './client.ts'

/** Sends one request. Rejects if there is no answer within `limit` milliseconds: the SDK has no time limit of its own. The request may still take effect. */
export async function request<T>(
  runtime: Runtime,
  limit: number,
  signal: AbortSignal,
  send: (options: Required<AwsRequestOptions>) => Promise<T>,
): Promise<T> {
  using controller = linkedController(signal)
  const timer = runtime.setTimeout(() => controller.abort(new Error(`AWS did not answer within ${limit} ms.`)), limit)
  try {
    // The SDK does not watch the signal while it waits between two attempts.
    return await abortable(send({ abortSignal: controller.signal }), controller.signal)
  } finally {
    timer.cancel()
  }
}

/** The failures of a batch by the position of their entries, whose ids are their positions. An entry that the answer does not name has failed. */
export function failuresOf(count: number, { Successful = [], Failed = [] }: AwsBatchResult): (AwsBatchFailure | undefined)[] {
  const failures: (AwsBatchFailure | undefined)[] = Array.from({ length: count }, () => unanswered)
  for (const { Id } of Successful) if (Id !== undefined) failures[Number(Id)] = undefined
  for (const failure of Failed) if (failure.Id !== undefined) failures[Number(failure.Id)] = failure
  return failures.slice(0, count)
}

const unanswered: AwsBatchFailure = { Code: 'Unanswered', Message: 'the answer does not name this entry', SenderFault: false }
