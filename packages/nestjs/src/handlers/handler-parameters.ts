import 'reflect-metadata'

/** The key under which parameter decorators of Nest store what they are applied to, also those of `createParamDecorator()`. */
export const parametersKey = '__routeArguments__'

// The numbers of `@Payload()` and `@Ctx()` of @nestjs/microservices, which therefore work in handlers. Pipes see the first one as a body.
const payload = 3
const context = 4

interface Parameter {
  readonly index: number
  readonly data: unknown
  readonly pipes: readonly unknown[]
}

/** Makes the first parameter the data and the second one the context, where no decorator says otherwise. Pipes are applied to declared parameters only. */
export function addHandlerParameters(owner: object, property: string | symbol): void {
  const declared: Readonly<Record<string, Parameter>> = Reflect.getMetadata(parametersKey, owner, property) ?? {}
  const taken = new Set(Object.values(declared).map(({ index }) => index))
  const added = [payload, context]
    .map((type, index) => [`${type}:${index}`, { index, data: undefined, pipes: [] }] as const)
    .filter(([, { index }]) => !taken.has(index))
  Reflect.defineMetadata(parametersKey, { ...declared, ...Object.fromEntries(added) }, owner, property)
}

/** Finds the value of a parameter among the arguments of a handler; `data` is the name in `@Payload('name')`. */
export const parametersFactory = {
  exchangeKeyForValue(type: number, data: unknown, args: readonly unknown[]): unknown {
    const [message, messageContext] = args
    if (type === context) return messageContext
    if (type !== payload) return undefined
    return typeof data === 'string' ? (message as Readonly<Record<string, unknown>> | null | undefined)?.[data] : message
  },
}
