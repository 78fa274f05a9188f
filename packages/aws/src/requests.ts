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
  } catch (error) {
    throw withoutResponse(error)
  } finally {
    timer.cancel()
  }
}

/**
 * The SDK attaches the response to its errors, in a property that cannot be removed. It leads to the request, which has the credentials and the data of messages, and nobody who
 * prints or reports an error must find them there.
 */
function withoutResponse(error: unknown): unknown {
  if (!(error instanceof Error) || !('$response' in error)) return error
  const { $response: _response, ...properties } = Object.getOwnPropertyDescriptors(error) as PropertyDescriptorMap
  return Object.create(Object.getPrototypeOf(error), properties)
}

/** The failures of a batch by the position of their entries, whose ids are their positions. An entry that the answer does not name has failed. */
export function failuresOf(count: number, { Successful = [], Failed = [] }: AwsBatchResult): (AwsBatchFailure | undefined)[] {
  const failures: (AwsBatchFailure | undefined)[] = Array.from({ length: count }, () => unanswered)
  for (const { Id } of Successful) if (Id !== undefined) failures[Number(Id)] = undefined
  for (const failure of Failed) if (failure.Id !== undefined) failures[Number(failure.Id)] = failure
  return failures.slice(0, count)
}

const unanswered: AwsBatchFailure = { Code: 'Unanswered', Message: 'the answer does not name this entry', SenderFault: false }
