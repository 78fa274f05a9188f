import type { StandardSchema } from '@ackord/core'
import { checkFunction, rejectUnknownOptions } from '@ackord/core/internal'

/** An error of `class-validator`. */
interface ValidationFailure {
  readonly property: string
  readonly constraints?: Readonly<Record<string, string>> | undefined
  readonly children?: readonly ValidationFailure[] | undefined
}

type DtoClass<Dto extends object> = new (...parameters: never[]) => Dto

export interface DtoSchemaOptions<ValidatorOptions, TransformOptions> {
  /** `validate` of `class-validator`. */
  readonly validate: (dto: object, options?: ValidatorOptions) => Promise<readonly ValidationFailure[]>
  /** `plainToInstance` of `class-transformer`. */
  readonly plainToInstance: <Dto extends object>(
    type: new (...parameters: never[]) => Dto,
    plain: object,
    options?: TransformOptions,
  ) => Dto
  /** For `validate`, such as `{ whitelist: true }`. Default: its own defaults. */
  readonly validatorOptions?: ValidatorOptions | undefined
  /** For `plainToInstance`. Default: its own defaults. */
  readonly transformOptions?: TransformOptions | undefined
}

/**
 * Makes schemas of classes that are decorated with `class-validator`. Handlers then receive validated instances.
 *
 *     const schemaOf = dtoSchemas({ validate, plainToInstance })
 *     const placeOrder = defineEvent('order.place', schemaOf(PlaceOrderDto))
 */
export function dtoSchemas<ValidatorOptions, TransformOptions>(
  options: DtoSchemaOptions<ValidatorOptions, TransformOptions>,
): <Dto extends object>(type: DtoClass<Dto>) => StandardSchema<Dto> {
  const { validate, plainToInstance, validatorOptions, transformOptions, ...unknown } = options
  rejectUnknownOptions('dtoSchemas()', unknown)
  checkFunction('validate', validate)
  checkFunction('plainToInstance', plainToInstance)

  return (type) => ({
    '~standard': {
      version: 1,
      vendor: 'class-validator',
      async validate(value) {
        if (typeof value !== 'object' || value === null || Array.isArray(value)) return { issues: [{ message: 'must be an object' }] }
        const dto = plainToInstance(type, value, transformOptions)
        const failures = await validate(dto, validatorOptions)
        return failures.length === 0 ? { value: dto } : { issues: failures.flatMap((failure) => issuesOf(failure, [])) }
      },
    },
  })
}

function issuesOf(
  failure: ValidationFailure,
  above: readonly string[],
): readonly { readonly message: string; readonly path: readonly string[] }[] {
  const path = [...above, failure.property]
  const own = Object.values(failure.constraints ?? {}).map((message) => ({ message, path }))
  return [...own, ...(failure.children ?? []).flatMap((child) => issuesOf(child, path))]
}
