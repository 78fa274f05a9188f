import { AckordError } from '../errors.ts'
import { missingAttributes } from '../message/attributes.ts'
import { describeMessage } from '../message/marshal.ts'
import type { Message } from '../message/message.ts'
import { type Middleware, middleware } from './middleware.ts'

export interface ValidateOptions {
  /** Whether outputs are validated too. Default: true. */
  readonly outputs?: boolean | undefined
}

/**
 * Rejects messages without the attributes that CloudEvents requires. For an input the message is at fault, for an output the handler, which a
 * deployment may fix.
 */
export function validateMiddleware(options: ValidateOptions = {}): Middleware {
  const { outputs: checkOutputs = true } = options

  return middleware(
    { role: checkOutputs ? 'outputs' : undefined },
    (next) =>
      async function validate(message, context) {
        checkRequired(message, describeMessage(message), false)
        const outputs = await next(message, context)
        if (checkOutputs) for (const output of outputs) checkRequired(output, `an output (${describeMessage(output)})`, true)
        return outputs
      },
  )
}

function checkRequired(message: Message, name: string, retryable: boolean): void {
  const missing = missingAttributes(message.attributes)
  if (missing.length === 0) return
  const listed = missing.map((attribute) => `'${attribute}'`).join(', ')
  throw new AckordError('ACKORD_MISSING_ATTRIBUTE', `Required attributes are missing on ${name}: ${listed}.`, {
    retryable,
  })
}
