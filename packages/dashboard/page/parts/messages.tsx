import type { ComponentChildren, VNode } from 'preact'
import type { Loaded } from '../state/loaded.ts'
import { visibleLines } from '../text/visible-text.ts'

export function ErrorMessage({ text }: { readonly text: string }): VNode {
  return (
    <p class="message bad" role="alert">
      {visibleLines(text)}
    </p>
  )
}

export function Empty({ title, children }: { readonly title: string; readonly children?: ComponentChildren }): VNode {
  return (
    <div class="empty">
      <strong>{title}</strong>
      {children && <p>{children}</p>}
    </div>
  )
}

/** Shows what was loaded, why it could not be, or that it is on its way. */
export function WhenLoaded<T>({
  loaded,
  children,
}: {
  readonly loaded: Loaded<T>
  readonly children: (data: T) => ComponentChildren
}): VNode {
  const { data, error, loading } = loaded
  return (
    <div aria-busy={loading}>
      {error !== undefined && <ErrorMessage text={error} />}
      {data !== undefined && children(data)}
      {data === undefined && loading && <p class="muted pending">Loading…</p>}
    </div>
  )
}
