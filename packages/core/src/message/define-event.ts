import { AckordError } from '../errors.ts'
import { checkName } from '../options.ts'
import type { Attributes, AttributeValue } from './attributes.ts'
import { type DelayOptions, dueFrom } from './delay.ts'
import { Message, setDue } from './message.ts'
import { checkSchema, type StandardSchema } from './schema.ts'

/** Attributes for one event; its type comes from the definition. `delay` and `at` are no attributes: they say when an outbox may publish the event. */
export type EventAttributes = Attributes & DelayOptions & { readonly type?: undefined }

/** Creates the messages of one type. Handlers accept it instead of a type and a schema. */
export interface EventDefinition<Data = unknown> {
  /**
   * The router completes the message (id, time, source …) when a handler returns it. The data is not validated here but by the consumer.
   *
   *     orderPlaced({ orderId }, { partitionkey: orderId })
   *     paymentOverdue({ orderId }, { delay: 15 * 60_000 })
   */
  (data: Data, attributes?: EventAttributes): Message<Data>
  readonly type: string
  readonly schema: StandardSchema<Data> | undefined
  /** Checks the type only; the data matches the definition if the sender kept to it. */
  is(message: Message): message is Message<Data>
}

/** `defineEvent('order.placed', schema)` is typed by the schema's output, `defineEvent<OrderPlaced>('order.placed')` by the type argument. */
export function defineEvent<Data = unknown>(type: string, schema?: StandardSchema<Data> | undefined): EventDefinition<Data> {
  checkName('The type given to defineEvent()', type)
  checkSchema(schema)

  // An arrow function has no `prototype`; this is how handlers distinguish an event from a class.
  const create = (data: Data, attributes?: EventAttributes): Message<Data> => {
    if (attributes?.type !== undefined) {
      throw new AckordError(
        'ACKORD_INVALID_ATTRIBUTES',
        `The event '${type}' was given the attribute 'type'. Omit it: the type comes from the definition.`,
      )
    }
    // Named before the others are spread: see withContentType().
    const whole: Record<string, AttributeValue | undefined> = { type, ...attributes }
    whole['type'] = type
    const message = new Message(data, whole)
    if (attributes !== undefined && ('delay' in attributes || 'at' in attributes)) {
      delete whole['delay']
      delete whole['at']
      const due = dueFrom(attributes, `the event '${type}'`)
      if (due !== undefined) setDue(message, due)
    }
    return message
  }

  return Object.assign(create, {
    type,
    schema,
    is: (message: Message): message is Message<Data> => message.type === type,
  })
}
