/** What a driver adapter tells of an error of the server. */
export interface AdapterCause {
  readonly originalCode: string
  readonly originalMessage?: string | undefined
}

/** Prisma puts it under an error of its own; at COMMIT the adapter's comes alone. */
export function adapterCause(error: Error): AdapterCause | undefined {
  const meta = 'meta' in error ? (error.meta as { readonly driverAdapterError?: unknown } | undefined) : undefined
  const adapterError = meta?.driverAdapterError ?? (error.name === 'DriverAdapterError' ? error : undefined)
  const cause = (adapterError as { readonly cause?: Partial<AdapterCause> } | undefined)?.cause
  return typeof cause?.originalCode === 'string' ? (cause as AdapterCause) : undefined
}

/** Of an error that Prisma made. */
export function prismaCode(error: Error): string | undefined {
  return 'code' in error && typeof error.code === 'string' && /^P\d{4}$/.test(error.code) && 'clientVersion' in error
    ? error.code
    : undefined
}
