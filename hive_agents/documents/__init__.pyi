from . import (
    analysis as analysis,
    blocks as blocks,
    chunking as chunking,
    content as content,
    proposals as proposals,
    undeclared as undeclared,
)
from .analysis import (
    is_exact as is_exact,
    language_of as language_of,
    names_in as names_in,
    terms as terms,
    words as words,
)
from .chunking import (
    head_of as head_of,
)
from .content import (
    LANGUAGES as LANGUAGES,
    content_terms as content_terms,
    function_terms as function_terms,
    function_words as function_words,
    spoken_language as spoken_language,
)
from .documents import (
    Collection as Collection,
    Document as Document,
    DocumentFolder as DocumentFolder,
    FieldSchema as FieldSchema,
    FieldType as FieldType,
    collection_names as collection_names,
    date_bound as date_bound,
    document_files as document_files,
    file_stamp as file_stamp,
    iso_date as iso_date,
    keyword_text as keyword_text,
    list_documents as list_documents,
    load_collection as load_collection,
    no_such_collection as no_such_collection,
    parse_document as parse_document,
)
from .labels import (
    MOVED_DOCUMENTS as MOVED_DOCUMENTS,
    golden_text as golden_text,
    move_labels as move_labels,
)
from .moving import (
    follow_moves as follow_moves,
)
from .undeclared import (
    undeclared_fields as undeclared_fields,
)
