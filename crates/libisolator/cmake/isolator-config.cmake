# SPDX-License-Identifier: MIT OR Apache-2.0
# libisolator for find_package(isolator CONFIG): the targets isolator::isolator (shared) and isolator::isolator_static, as far as they are
# installed. All is found relative to this file, which lies in cmake/isolator of the folder of the libraries.
get_filename_component(_isolator_libraries "${CMAKE_CURRENT_LIST_DIR}/../.." REALPATH)

# The folder of the libraries is lib or lib64 of a prefix, or lib/MACHINE.
unset(_isolator_headers)
foreach(_isolator_up ".." "../..")
  if(NOT _isolator_headers AND EXISTS "${_isolator_libraries}/${_isolator_up}/include/isolator.h")
    get_filename_component(_isolator_headers "${_isolator_libraries}/${_isolator_up}/include" REALPATH)
  endif()
endforeach()

set(isolator_FOUND FALSE)
if(NOT _isolator_headers)
  set(isolator_NOT_FOUND_MESSAGE "isolator.h is in no include folder above ${_isolator_libraries}; install the headers")
elseif(NOT EXISTS "${_isolator_libraries}/libisolator.so.1" AND NOT EXISTS "${_isolator_libraries}/libisolator.a")
  set(isolator_NOT_FOUND_MESSAGE "there is no libisolator in ${_isolator_libraries}; install it")
else()
  set(isolator_FOUND TRUE)
endif()

if(isolator_FOUND AND EXISTS "${_isolator_libraries}/libisolator.so.1" AND NOT TARGET isolator::isolator)
  add_library(isolator::isolator SHARED IMPORTED)
  set_target_properties(isolator::isolator PROPERTIES
    IMPORTED_LOCATION "${_isolator_libraries}/libisolator.so.1"
    IMPORTED_SONAME "libisolator.so.1"
    INTERFACE_INCLUDE_DIRECTORIES "${_isolator_headers}")
endif()

if(isolator_FOUND AND EXISTS "${_isolator_libraries}/libisolator.a" AND NOT TARGET isolator::isolator_static)
  add_library(isolator::isolator_static STATIC IMPORTED)
  set_target_properties(isolator::isolator_static PROPERTIES
    IMPORTED_LOCATION "${_isolator_libraries}/libisolator.a"
    IMPORTED_LINK_INTERFACE_LANGUAGES C
    INTERFACE_LINK_LIBRARIES "pthread;dl;m"
    INTERFACE_INCLUDE_DIRECTORIES "${_isolator_headers}")
endif()

unset(_isolator_libraries)
unset(_isolator_headers)
unset(_isolator_up)
