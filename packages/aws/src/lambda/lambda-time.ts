import { InvalidOptionError } from '@ackord/core'
import type { InvocationOptions } from '@ackord/core/broker'
import { checkDuration, describeValue, type InvocationTime } from '@ackord/core/internal'

/** The part that is used of the context that Lambda passes to a function. */
export interface LambdaContext {
  getRemainingTimeInMillis(): number
}

export interface LambdaOptions extends InvocationOptions {
  /**
   * Milliseconds before the end of the invocation when the signals of handlers that still run are aborted. A handler that has not ended after half of them counts as failed, and
   * the function answers: if Lambda ended it by its own time limit, all messages of the batch would be delivered again. Default: 1,000.
   */
  readonly margin?: number | undefined
}

/** Returns the time of an invocation. */
export function lambdaTime(margin = 1000): (context: LambdaContext) => InvocationTime {
  checkDuration('margin', margin, { min: 1 })
  return (context) => {
    if (typeof context?.getRemainingTimeInMillis !== 'function') {
      const text = `must be the context that Lambda passes to the function: (event, context); it is ${describeValue(context)}.`
      throw new InvalidOptionError('context', text)
    }
    return { remaining: context.getRemainingTimeInMillis(), margin }
  }
}
