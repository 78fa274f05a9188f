/** How the events of a request are written. `unknown`: CloudEvents in a form that we cannot read. */
export type ContentMode = 'binary' | 'structured' | 'batch' | 'unknown'

export const structuredType = 'application/cloudevents+json'
export const batchType = 'application/cloudevents-batch+json'

/** What the content type says; `binary` if it says nothing of CloudEvents. */
export function contentMode(contentType: string | null): ContentMode {
  const [type = '', ...parameters] = (contentType ?? '').split(';').map((part) => part.trim().toLowerCase())
  if (!type.startsWith('application/cloudevents')) return 'binary'
  const charset = parameters.find((parameter) => parameter.startsWith('charset='))?.slice('charset='.length)
  if (charset !== undefined && !/^"?(utf-8|utf8|us-ascii)"?$/.test(charset)) return 'unknown'
  if (type === structuredType) return 'structured'
  return type === batchType ? 'batch' : 'unknown'
}
